// Prefixes on and off, and tensors as bytes on their way between processes.
#include "ops/catalogue/ranks.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "formats/error.h"

namespace mxo {
namespace {

constexpr std::string_view kPattern = "rank<p>.";

std::string prefix_of(int rank) { return "rank" + std::to_string(rank) + "."; }

/// The part of "rank12.x" behind the point; empty if it is no such name.
std::string_view without_rank(std::string_view name) {
  if (!name.starts_with("rank")) return {};
  std::size_t at = 4;
  while (at < name.size() && name[at] >= '0' && name[at] <= '9') ++at;
  if (at == 4 || at == name.size() || name[at] != '.') return {};
  if (name[4] == '0' && at > 5) return {};  // "rank00.x" would be another name of rank 0's
  return name.substr(at + 1);
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof(T));
}
template <typename T>
T extract(std::span<const std::byte>& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return value;
}

std::vector<std::byte> packed(const NamedTensors& tensors) {
  std::vector<std::byte> out;
  append(out, tensors.size());
  for (const auto& [name, tensor] : tensors) {
    append(out, name.size());
    const auto* text = reinterpret_cast<const std::byte*>(name.data());
    out.insert(out.end(), text, text + name.size());
    append(out, tensor.dtype());
    append(out, tensor.shape().size());
    for (const Index extent : tensor.shape()) append(out, extent);
    out.insert(out.end(), tensor.data(), tensor.data() + tensor.bytes());
  }
  return out;
}

NamedTensors unpacked(std::span<const std::byte> from) {
  NamedTensors tensors;
  for (auto left = extract<std::size_t>(from); left > 0; --left) {
    const auto length = extract<std::size_t>(from);
    std::string name(reinterpret_cast<const char*>(from.data()), length);
    from = from.subspan(length);
    const auto dtype = extract<Dtype>(from);
    std::vector<Index> shape(extract<std::size_t>(from));
    for (Index& extent : shape) extent = extract<Index>(from);
    Tensor tensor(dtype, std::move(shape));
    std::memcpy(tensor.data(), from.data(), tensor.bytes());
    from = from.subspan(tensor.bytes());
    tensors.emplace(std::move(name), std::move(tensor));
  }
  return tensors;
}

}  // namespace

bool names_operand(std::string_view spec, std::string_view given) {
  if (!spec.starts_with(kPattern)) return spec == given;
  const std::string_view rest = without_rank(given);
  return !rest.empty() && rest == spec.substr(kPattern.size());
}

bool names_step(const CatalogueEntry& entry, std::string_view given) {
  std::string_view step = without_rank(given);
  for (const std::string_view part : {".codes", ".scales"}) {
    if (step.ends_with(part)) step.remove_suffix(part.size());
  }
  return std::ranges::find(entry.steps, step) != entry.steps.end();
}

int ranks_of(std::string_view op, const NamedViews& inputs, std::string_view operand) {
  int ranks = 0;
  while (inputs.contains(prefix_of(ranks) + std::string(operand))) ++ranks;
  if (ranks == 0) {
    throw Error(Fault::shape, std::string(op) + ": rank0." + std::string(operand) +
                                  ": missing, this operand is needed");
  }
  for (const auto& [name, given] : inputs.operands()) {
    const std::string_view rest = without_rank(name);
    if (rest.empty()) continue;
    int rank = 0;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), rank);
    if (error != std::errc{} || rank >= ranks) {
      throw Error(Fault::shape, std::string(op) + ": " + prefix_of(ranks) + std::string(operand) +
                                    ": missing, but there is " + name);
    }
  }
  return ranks;
}

NamedViews inputs_of_rank(const NamedViews& inputs, int rank) {
  const std::string prefix = prefix_of(rank);
  NamedViews mine;
  for (const auto& [name, operand] : inputs.operands()) {
    if (name.starts_with(prefix)) {
      mine.set(name.substr(prefix.size()), operand);
    } else if (without_rank(name).empty()) {
      mine.set(name, operand);
    }
  }
  return mine;
}

void RankOutputs::add(World& world, Communicator& communicator, NamedTensors outputs) {
  const auto keep = [this](int rank, NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) all_.emplace(prefix_of(rank) + name, std::move(tensor));
  };
  if (world.one_process()) {
    const std::lock_guard lock(mutex_);
    return keep(communicator.rank(), std::move(outputs));
  }
  const auto all = communicator.all_gather(packed(outputs));
  for (std::size_t p = 0; p < all.size() && world.writes(); ++p) {
    keep(static_cast<int>(p), unpacked(all[p]));
  }
}

}  // namespace mxo
