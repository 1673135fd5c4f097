// Altered operands and spoiled outputs.
#include "golden/museum/faults.h"

#include <algorithm>
#include <cstring>

#include "golden/judge/group_rows.h"
#include "golden/museum/operands.h"

namespace mxo {

Answer with_operand(Backend& backend, const Call& call, const std::string& name,
                    const std::function<bool(Tensor&, const Tensor&)>& edit) {
  if (!call.has(name)) return std::nullopt;
  Tensor t = call.input(name);
  if (!edit(t, call.input(name))) return std::nullopt;
  Call wrong = call;
  wrong.replace(name, std::move(t));
  return run_call(backend, wrong);
}

bool has_defaults(const Call& call, std::initializer_list<std::string_view> but) {
  const auto& specs = catalogue_entry(call.op).parameters;
  return std::all_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
    if (std::find(but.begin(), but.end(), spec.key) != but.end()) return true;
    const std::string_view usual = spec.values.substr(0, spec.values.find('|'));
    return call.set.text(spec.key, usual) == usual;
  });
}

ProductParts parts_of(const Call& call) {
  ProductParts parts;
  parts.x = call.has("x.codes") ? "x.codes" : "x";
  const std::string w = call.op == "grouped_matmul_wgrad" ? "dy" : "w";
  parts.w = call.has(w + ".codes") ? w + ".codes" : w;
  parts.ends = group_ends_of(call.input("group_ends"));
  parts.rows = call.input(parts.x).extent(0);
  return parts;
}

Answer with_ends(Backend& backend, const Call& call, const std::vector<Index>& ends) {
  std::vector<std::int32_t> words;
  for (const Index end : ends) words.push_back(static_cast<std::int32_t>(end));
  Call wrong = call;
  wrong.replace("group_ends", ends_of(std::move(words)));
  return run_call(backend, wrong);
}

void fill_nan(Tensor& t, Index from, Index count) {
  // All ones are NaN in bf16, f16 and f32.
  std::memset(row_of(t, from), 0xFF, static_cast<std::size_t>(count) * row_bytes(t));
}

}  // namespace mxo
