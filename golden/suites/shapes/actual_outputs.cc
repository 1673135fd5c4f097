// Outputs of a kernel, whole or by digest.
#include "golden/suites/shapes/actual_outputs.h"

#include <cstring>
#include <set>

#include "formats/error.h"
#include "golden/files/safetensors.h"

namespace mxo {
namespace {

std::string text_of(const TensorFile& file, std::string_view key) {
  const auto at = file.metadata.find(key);
  return at == file.metadata.end() ? std::string() : at->second;
}

std::string rows_name(const ShapedOutput& output, std::size_t region) {
  return output.whole.name + ".rows." + std::to_string(region);
}

std::size_t bytes_in(const ShapedOutput& output, std::size_t region) {
  const Box& box = output.regions[region].box;
  return static_cast<std::size_t>(box.rows() * box.columns()) * size_of(output.whole.format);
}

}  // namespace

ActualOutputs::ActualOutputs(const std::filesystem::path& path, const ShapedCase& item)
    : file_(as_declared(read_safetensors(path))) {
  const std::string schema = text_of(file_, kSchemaKey);
  by_digest_ = schema == kOutputsSchema;
  if (!by_digest_ && !schema.empty()) {
    throw Error(Fault::file, path.string() + ": mxo.schema: found " + schema + ", needs " +
                                 std::string(kOutputsSchema) + ", or outputs");
  }
  if (!by_digest_) return;
  const std::string id = text_of(file_, "mxo.case");
  if (id != item.id) {
    throw Error(Fault::file, path.string() + ": mxo.case: found '" + id + "', needs " + item.id);
  }
  for (const ShapedOutput& output : item.outputs) {
    if (tensor(output.whole.name) != nullptr) {
      throw Error(Fault::file, path.string() + ": " + output.whole.name +
                                   ": stands beside its digests, needs one of them");
    }
    for (std::size_t i = 0; i < output.regions.size(); ++i) {
      const Tensor* rows = tensor(rows_name(output, i));
      if (rows == nullptr) continue;
      const std::string where = path.string() + ": " + rows_name(output, i);
      if (rows->bytes() != bytes_in(output, i)) {
        throw Error(Fault::file, where + ": found " + std::to_string(rows->bytes()) +
                                     " bytes, needs " + std::to_string(bytes_in(output, i)));
      }
      if (!unfit(output).empty()) continue;
      if (digest_of(rows->data(), rows->bytes()) != digest(output, i)) {
        throw Error(Fault::file, where + ": are not the bytes whose digest stands beside them");
      }
    }
  }
}

const Tensor* ActualOutputs::tensor(const std::string& name) const {
  const auto at = file_.tensors.find(name);
  return at == file_.tensors.end() ? nullptr : &at->second;
}

std::string ActualOutputs::unfit(const ShapedOutput& output) const {
  const Tensor* found = tensor(name_in_file(output));
  if (found == nullptr) return "is not in ACTUAL";
  const auto count = static_cast<Index>(output.regions.size());
  const std::vector<Index> shape =
      by_digest_ ? std::vector<Index>{count, Index{sizeof(Digest)}} : output.whole.shape;
  const Dtype format = by_digest_ ? Dtype::u8 : output.whole.format;
  const bool codes = is_minifloat8(format) || format == Dtype::e8m0;
  const bool type = found->dtype() == format || (codes && found->dtype() == Dtype::u8);
  if (type && found->shape() == shape) return "";
  std::string needs = std::string(name_of(format)) + " [";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    needs += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return "found " + (found->rank() <= kMaxRank ? describe(found->operand()) : "more axes") +
         ", needs " + needs + "]";
}

Digest ActualOutputs::digest(const ShapedOutput& output, std::size_t region) const {
  if (!by_digest_) {
    const std::vector<std::byte> all = *bytes(output, region);
    return digest_of(all.data(), all.size());
  }
  Digest digest;
  const Tensor* digests = tensor(output.whole.name + ".digests");
  std::memcpy(digest.data(), digests->data() + region * sizeof(Digest), sizeof(Digest));
  return digest;
}

std::optional<std::vector<std::byte>> ActualOutputs::bytes(const ShapedOutput& output,
                                                           std::size_t region) const {
  if (!by_digest_) return bytes_of(*tensor(output.whole.name), output.regions[region].box);
  const Tensor* rows = tensor(rows_name(output, region));
  if (rows == nullptr) return std::nullopt;
  return std::vector<std::byte>(rows->data(), rows->data() + rows->bytes());
}

std::string ActualOutputs::others(const ShapedCase& item) const {
  std::set<std::string> known;
  for (const ShapedOutput& output : item.outputs) {
    known.insert(name_in_file(output));
    for (std::size_t i = 0; by_digest_ && i < output.regions.size(); ++i) {
      known.insert(rows_name(output, i));
    }
  }
  std::string text;
  for (const auto& [name, tensor] : file_.tensors) {
    if (!known.contains(name)) text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? text : "ACTUAL holds more, not compared: " + text;
}

}  // namespace mxo
