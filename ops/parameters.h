// The --set key=value pairs of one operator call, typed and checked.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

/// One key an operator takes.  An empty `values` admits any text.
struct ParameterSpec {
  std::string_view key;
  std::string_view values;  ///< "saturate|nonfinite"; the first is the default
  std::string_view meaning;
};

/// Key and value pairs.  Every read names the operator in its errors, Error(argument).
class Parameters {
 public:
  Parameters() = default;
  explicit Parameters(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}

  /// Parses "key=value".  Throws Error(argument) without '=' or on a repeated key.
  void set(std::string_view assignment);
  void set(std::string_view key, std::string_view value) {
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }

  /// The same with values as `specs` list them: upper case is read, e4m3fn and mxfp8 are e4m3.
  Parameters as_listed(std::span<const ParameterSpec> specs) const;
  /// Throws Error(argument), naming the nearest, on a key that `specs` lacks or a value it does not
  /// list, however it is spelt.
  void check(std::string_view op, std::span<const ParameterSpec> specs) const;

  std::string_view text(std::string_view key, std::string_view fallback) const;
  Index integer(std::string_view key, Index fallback) const;
  double real(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  Dtype format(std::string_view key, std::string_view fallback) const;

  const std::map<std::string, std::string, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace mxo
