// Reading and checking --set key=value.
#include "ops/parameters.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "formats/aliases.h"
#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(Fault::argument, what); }

/// The alternatives of "a|b|c".
std::vector<std::string_view> alternatives(std::string_view values) {
  std::vector<std::string_view> list;
  while (true) {
    const std::size_t bar = values.find('|');
    list.push_back(values.substr(0, bar));
    if (bar == std::string_view::npos) return list;
    values.remove_prefix(bar + 1);
  }
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

/// `value` as `spec` lists it, or empty.
std::string_view listed(const ParameterSpec& spec, std::string_view value) {
  const std::vector<std::string_view> list = alternatives(spec.values);
  for (const std::string_view one : list) {
    if (same_letters(one, value)) return one;
  }
  const bool format = spec.key.starts_with("format") || spec.key == "out";
  const bool layout = spec.key.ends_with("layout");
  const bool recipe = spec.key == "recipe";
  if (!format && !layout && !recipe) return {};
  const std::string_view name = canonical_name(format   ? Word::format
                                               : layout ? Word::scale_layout
                                                        : Word::recipe,
                                               value);
  return std::find(list.begin(), list.end(), name) != list.end() ? name : std::string_view{};
}

bool is_open(const ParameterSpec& spec) { return spec.values.find('|') == std::string_view::npos; }

const ParameterSpec* find(std::span<const ParameterSpec> specs, std::string_view key) {
  for (const ParameterSpec& spec : specs) {
    if (spec.key == key) return &spec;
  }
  return nullptr;
}

[[noreturn]] void fail_unknown(std::string_view op, std::string_view key,
                               std::span<const ParameterSpec> specs) {
  std::vector<std::string_view> keys;
  for (const ParameterSpec& spec : specs) keys.push_back(spec.key);
  const std::string_view here = canonical_name(Word::parameter, key);
  const bool taken = std::find(keys.begin(), keys.end(), here) != keys.end();
  fail(with_nearest(std::string(op) + ": unknown parameter '" + std::string(key) + "'",
                    taken ? here : key, keys, "it takes"));
}

template <typename Number>
Number number(std::string_view key, std::string_view text, const char* kind) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    fail(std::string(key) + ": found " + std::string(text) + ", needs " + kind);
  }
  return value;
}

}  // namespace

void Parameters::set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    fail("--set " + std::string(assignment) + ": needs key=value");
  }
  const std::string_view key = assignment.substr(0, equals);
  if (has(key)) fail("--set " + std::string(key) + ": given twice");
  set(key, assignment.substr(equals + 1));
}

Parameters Parameters::as_listed(std::span<const ParameterSpec> specs) const {
  Parameters parameters = *this;
  for (auto& [key, value] : parameters.values_) {
    const ParameterSpec* spec = find(specs, key);
    if (spec == nullptr || is_open(*spec)) continue;
    const std::string_view name = listed(*spec, value);
    if (!name.empty()) value = name;
  }
  return parameters;
}

void Parameters::check(std::string_view op, std::span<const ParameterSpec> specs) const {
  for (const auto& [key, value] : values_) {
    const ParameterSpec* spec = find(specs, key);
    if (spec == nullptr) fail_unknown(op, key, specs);
    if (!is_open(*spec) && listed(*spec, value).empty()) {
      const bool format = spec->key.starts_with("format");
      const std::string advice = format ? advice_on(Word::format, value) : std::string();
      if (!advice.empty()) {
        fail(std::string(op) + ": " + key + ": found " + value + ", " + advice);
      }
      fail(with_nearest(
          std::string(op) + ": " + key + ": found " + (value.empty() ? "nothing" : value), value,
          alternatives(spec->values), "needs one of"));
    }
  }
}

std::string_view Parameters::text(std::string_view key, std::string_view fallback) const {
  const auto at = values_.find(key);
  return at == values_.end() ? fallback : std::string_view(at->second);
}

Index Parameters::integer(std::string_view key, Index fallback) const {
  return has(key) ? number<Index>(key, text(key, ""), "a whole number") : fallback;
}

double Parameters::real(std::string_view key, double fallback) const {
  return has(key) ? number<double>(key, text(key, ""), "a number") : fallback;
}

bool Parameters::flag(std::string_view key, bool fallback) const {
  const std::string_view value = text(key, fallback ? "true" : "false");
  if (value != "true" && value != "false") {
    fail(std::string(key) + ": found " + std::string(value) + ", needs true or false");
  }
  return value == "true";
}

Dtype Parameters::format(std::string_view key, std::string_view fallback) const {
  return dtype_named(text(key, fallback));
}

}  // namespace mxo
