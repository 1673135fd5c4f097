// The kinds of changes: what people and programs get wrong, and what nobody would write.
#include "tests/support/mutation.h"

#include <algorithm>

namespace mxo {
namespace {

constexpr Index kIntegers[] = {-1, 0, 1, 2, 5, 31, 32, 33, 1 << 30, 2147483647, -2147483647 - 1};
constexpr Index kExtents[] = {0, 1, 2, 3, 16, 31, 32, 33, 64};
constexpr const char* kNames[] = {
    "x",        "w",       "y",   "codes", "scales",  "x.codes", "w.scales", "group_ends", "dy",
    "rank00.x", "rank1.x", "a b", "",      "experts", "rows",    "weights",  "slots"};
constexpr const char* kWords[] = {"",         "e4m3",        "e5m2",
                                  "bf16",     "f32",         "e4m3fnuz",
                                  "-1",       "0",           "1",
                                  "3",        "nan",         "inf",
                                  "1e-9",     "true",        "false",
                                  "1x32",     "1x128",       "128x128",
                                  "exact",    "fma_chain",   "99999999999999999999",
                                  "nonsense", "quantize",    "grouped_matmul",
                                  "blocked",  "power_of_two"};

bool is_integer(Dtype d) {
  return d == Dtype::i32 || d == Dtype::i64 || d == Dtype::u32 || d == Dtype::u64;
}

std::uint64_t bits_of(const Tensor& t, std::size_t element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, t.data() + element * size_of(t.dtype()), size_of(t.dtype()));
  return bits;
}
void put(Tensor& t, std::size_t element, std::uint64_t bits) {
  std::memcpy(t.data() + element * size_of(t.dtype()), &bits, size_of(t.dtype()));
}

/// `from`'s bytes under another type and shape, cut off or followed by zeros.
Tensor with_bytes_of(const Tensor& from, Dtype dtype, std::vector<Index> shape) {
  Tensor to(dtype, std::move(shape));
  if (to.bytes() > 0) std::memcpy(to.data(), from.data(), std::min(to.bytes(), from.bytes()));
  return to;
}

std::string change_elements(Tensor& t, Draw& draw) {
  const auto n = static_cast<std::size_t>(t.elements());
  const std::size_t at = draw.below(n);
  switch (draw.below(5)) {
    case 0:
    case 1: {
      const std::size_t byte = draw.below(t.bytes());
      t.data()[byte] ^= std::byte{1} << draw.below(8);
      return "a bit of byte " + std::to_string(byte);
    }
    case 2: {
      constexpr std::uint64_t patterns[] = {0,      ~0ull,      0x7F,       0x80, 0x7F80,
                                            0x7FC0, 0x7F800000, 0x7FC00000, 1};
      put(t, at, draw.pick(patterns));
      return "a pattern in element " + std::to_string(at);
    }
    case 3: {
      const std::size_t other = draw.below(n);
      const std::uint64_t bits = bits_of(t, at);
      put(t, at, bits_of(t, other));
      put(t, other, bits);
      return "elements " + std::to_string(at) + " and " + std::to_string(other) + " exchanged";
    }
    default: {
      std::rotate(t.data(), t.data() + at * size_of(t.dtype()), t.data() + t.bytes());
      return "all elements rolled by " + std::to_string(at);
    }
  }
}

/// An integer of `t`, as one that a wrong program would write.
std::string change_integer(Tensor& t, Draw& draw) {
  const std::size_t at = draw.below(static_cast<std::size_t>(t.elements()));
  const std::uint64_t old = bits_of(t, at);
  const std::uint64_t values[] = {static_cast<std::uint64_t>(draw.pick(kIntegers)), old + 1,
                                  old - 1};
  const std::uint64_t value = draw.pick(values);
  put(t, at, value);
  return "element " + std::to_string(at) + " is " +
         std::to_string(static_cast<std::int64_t>(value));
}

std::string change_type(Tensor& t, Draw& draw) {
  const Dtype to = dtypes()[draw.below(dtypes().size())].dtype;
  if (is_integer(t.dtype()) && is_integer(to)) {  // the same numbers
    Tensor other(to, t.shape());
    const bool narrow = t.dtype() == Dtype::i32;
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.elements()); ++i) {
      const std::uint64_t bits = bits_of(t, i);
      put(other, i, narrow ? static_cast<std::uint64_t>(static_cast<std::int32_t>(bits)) : bits);
    }
    t = std::move(other);
  } else {
    t = with_bytes_of(t, to, t.shape());
  }
  return "is " + std::string(name_of(to));
}

std::string change_shape(Tensor& t, Draw& draw) {
  std::vector<Index> shape = t.shape();
  switch (draw.below(6)) {
    case 0: shape = {t.elements()}; break;
    case 1: std::reverse(shape.begin(), shape.end()); break;
    case 2:
      shape.insert(shape.begin() + static_cast<Index>(draw.below(shape.size() + 1)), 1);
      break;
    case 3: shape.assign(1 + draw.below(6), 1); break;
    case 4: shape = {0, draw.pick(kExtents)}; break;
    default:
      if (shape.empty()) shape.push_back(1);
      shape[draw.below(shape.size())] = draw.pick(kExtents);
  }
  constexpr Index kMostElements = 1 << 20;  // many changes of one file stay small
  Index elements = 1;
  for (const Index extent : shape) elements *= extent;
  if (elements > kMostElements) shape = {1};
  t = with_bytes_of(t, t.dtype(), shape);
  std::string text = "has shape [";
  for (const Index extent : shape) text += std::to_string(extent) + " ";
  return text + "]";
}

std::string change_metadata(TensorFile& file, const std::string& name, Draw& draw) {
  std::vector<std::string> keys = {format_key(name), "mxo.op", "mxo.outputs", "mxo.set.sum",
                                   "mxo.set.format"};
  for (const auto& [key, value] : file.metadata) keys.push_back(key);
  const std::string key = draw.pick(keys);
  if (draw.below(4) == 0) {
    file.metadata.erase(key);
    return key + " is gone";
  }
  file.metadata[key] = draw.pick(kWords);
  return key + " is '" + file.metadata[key] + "'";
}

/// Takes the tensor out, gives it another name, or gives its bytes to another name as well.
std::string change_name(TensorFile& file, const std::string& name, Draw& draw) {
  if (draw.below(2) == 0) {
    file.tensors.erase(name);
    return "is gone";
  }
  const std::string other = draw.pick(kNames);
  Tensor tensor = file.tensors.at(name);
  if (draw.below(2) == 0) file.tensors.erase(name);
  file.tensors.insert_or_assign(other, std::move(tensor));
  return "is under '" + other + "'";
}

}  // namespace

Mutation mutate(TensorFile& file, const std::vector<std::string>& among, Draw& draw) {
  const std::string name = draw.pick(among);
  Tensor& tensor = file.tensors.at(name);
  const std::size_t kind = draw.below(10);
  if (kind == 0) return {change_metadata(file, name, draw), ""};
  if (kind == 1) return {name + ": " + change_name(file, name, draw), name};
  if (kind == 2) return {name + ": " + change_shape(tensor, draw), name};
  if (kind == 3 || tensor.elements() == 0) return {name + ": " + change_type(tensor, draw), name};
  const bool integers = is_integer(tensor.dtype()) && draw.below(4) != 0;
  return {name + ": " + (integers ? change_integer(tensor, draw) : change_elements(tensor, draw)),
          name};
}

}  // namespace mxo
