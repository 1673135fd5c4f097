// Types, and what can be said of values under another one.
#include "golden/judge/declared_type.h"

#include "golden/judge/elements.h"
#include "golden/judge/judge.h"

namespace mxo {
namespace {

bool is_float8(Dtype type) { return is_minifloat8(type) || type == Dtype::e8m0; }

std::string_view stored_name(Dtype type) {
  for (const DtypeRow& row : dtypes()) {
    if (row.dtype == type) return row.safetensors;
  }
  return {};
}

std::string shape_text(const Tensor& tensor) {
  std::string text(name_of(tensor.dtype()));
  text += " [";
  for (int i = 0; i < tensor.rank(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(tensor.extent(i));
  }
  return text + "]";
}

/// True if `same` holds at every position that is compared.
template <typename Same>
bool everywhere(const ExpectedOutput& expected_output, const Tensor& actual, Same same) {
  const Judge judge(expected_output, actual, {});
  const Index columns = actual.rank() == 0 ? 1 : actual.shape().back();
  for (Index i = 0; i < actual.elements(); ++i) {
    if (judge.is_compared(i / columns, i) && !same(i)) return false;
  }
  return actual.elements() > 0;
}

}  // namespace

std::string other_type(const ExpectedOutput& expected_output, const Tensor& actual) {
  const Tensor& expected = *expected_output.expected;
  const Dtype format = expected_output.format;
  const bool named = is_float8(format) || (is_wide_float(format) && expected.dtype() == Dtype::u16);
  const Dtype want = named ? format : expected.dtype();
  const Dtype have = actual.dtype();
  if (have == want || (is_float8(want) && have == Dtype::u8)) return {};
  if (want == Dtype::u8 && is_float8(have)) return {};
  const ElementReader read_want(want);
  const ElementReader read_have(have);
  const bool values = everywhere(expected_output, actual, [&](Index i) {
    const Element a = read_want(bits_at(expected, i));
    const Element b = read_have(bits_at(actual, i));
    return (a.nan && b.nan) || a.value == b.value;
  });
  const bool bytes =
      size_of(have) == size_of(want) && everywhere(expected_output, actual, [&](Index i) {
        return bits_at(expected, i) == bits_at(actual, i);
      });
  const std::string what = values ? "the values are right, " : bytes ? "the bytes are right, " : "";
  return what + "the type is " + std::string(stored_name(have)) + " rather than " +
         std::string(stored_name(want));
}

std::string other_shape_or_type(const ExpectedOutput& expected_output, const Tensor& actual) {
  const Tensor& expected = *expected_output.expected;
  if (actual.shape() == expected.shape()) return other_type(expected_output, actual);
  return "found " + shape_text(actual) + ", needs " + shape_text(expected);
}

std::string other_shape_or_type(const Tensor& expected, const Tensor& actual) {
  ExpectedOutput expected_output;
  expected_output.expected = &expected;
  expected_output.format = expected.dtype();
  return other_shape_or_type(expected_output, actual);
}

}  // namespace mxo
