// Reading and checking --set key=value.
#include "ops/parameters.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(Fault::argument, what); }

/// The alternatives of "a|b|c".
std::vector<std::string_view> alternatives(std::string_view values) {
  std::vector<std::string_view> all;
  while (true) {
    const std::size_t bar = values.find('|');
    all.push_back(values.substr(0, bar));
    if (bar == std::string_view::npos) return all;
    values.remove_prefix(bar + 1);
  }
}

template <typename Number>
Number number(std::string_view key, std::string_view text, const char* kind) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    fail("--set " + std::string(key) + "=" + std::string(text) + ": needs " + kind);
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

void Parameters::check(std::string_view op, std::span<const ParameterSpec> specs) const {
  for (const auto& [key, value] : values_) {
    const ParameterSpec* found = nullptr;
    std::vector<std::string_view> known;
    for (const ParameterSpec& spec : specs) {
      if (spec.key == key) found = &spec;
      known.push_back(spec.key);
    }
    if (found == nullptr) {
      fail(with_nearest(std::string(op) + ": unknown parameter '" + key + "'", key, known,
                        "it takes"));
    }
    const std::vector<std::string_view> choice = alternatives(found->values);
    if (choice.size() > 1 && std::ranges::find(choice, value) == choice.end()) {
      fail(with_nearest(std::string(op) + ": " + key + ": found " + value, value, choice,
                        "needs one of"));
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
    fail("--set " + std::string(key) + "=" + std::string(value) + ": needs true or false");
  }
  return value == "true";
}

Dtype Parameters::format(std::string_view key, std::string_view fallback) const {
  return dtype_named(text(key, fallback));
}

}  // namespace mxo
