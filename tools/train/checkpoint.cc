// Parameters gathered into a file, and cut into ranks again.
#include "tools/train/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "golden/files/sha256.h"

namespace mxo::tools {
namespace {

constexpr const char* kKind = "kind";
constexpr const char* kCheckpoint = "mxo train checkpoint";
constexpr const char* kDigests = "digests";
constexpr const char* kChecksum = "sha256";

/// Name and place of the three tensors of a parameter.
template <typename P, typename Use>
void each_tensor(P& parameter, const Use& use) {
  use("value." + parameter.name, parameter.value);
  use("mean." + parameter.name, parameter.mean);
  use("square." + parameter.name, parameter.square);
}

std::vector<Index> whole_shape(const Parameter& p, int ranks) {
  std::vector<Index> shape = p.value.shape();
  if (p.sharding == Sharding::experts) shape[0] *= ranks;
  return shape;
}

Tensor whole(Communicator& communicator, const Parameter& p, const Tensor& part) {
  if (p.sharding != Sharding::experts) return part;
  Tensor all(Dtype::f32, whole_shape(p, communicator.size()));
  std::byte* to = all.data();
  for (const auto& bytes : communicator.all_gather({part.data(), part.bytes()})) {
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return all;
}

Tensor of_list(const std::vector<float>& list) {
  Tensor t(Dtype::f32, {static_cast<Index>(list.size())});
  std::copy(list.begin(), list.end(), t.as<float>());
  return t;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(read_safetensors(path)) {
    if (text(kKind) != kCheckpoint) fail("is no checkpoint of mxo train");
    if (text(kChecksum) != checkpoint_checksum(file_))
      fail("its checksum does not hold: the file is damaged");
  }

  void check(const Identity& identity) const {
    for (const auto& [key, wanted] : identity) {
      const std::string found = text(key);
      if (found != wanted) {
        fail("is of another run: " + key + ": found '" + found + "', needs '" + wanted + "'");
      }
    }
  }
  const Tensor& tensor(const std::string& name, const std::vector<Index>& shape) const {
    const auto at = file_.tensors.find(name);
    if (at == file_.tensors.end()) fail("has no tensor '" + name + "'");
    if (at->second.shape() != shape || at->second.dtype() != Dtype::f32) {
      fail("tensor '" + name + "' has another shape or type");
    }
    return at->second;
  }
  std::vector<float> list(const std::string& name) const {
    const auto at = file_.tensors.find(name);
    if (at == file_.tensors.end() || at->second.rank() != 1) fail("has no list '" + name + "'");
    const Tensor& t = tensor(name, at->second.shape());
    return {t.as<float>(), t.as<float>() + t.elements()};
  }
  std::string text(const std::string& key) const {
    const auto at = file_.metadata.find(key);
    return at == file_.metadata.end() ? "" : at->second;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Fault::file, path_.string() + ": " + what);
  }

 private:
  std::filesystem::path path_;
  TensorFile file_;
};

}  // namespace

std::string checkpoint_checksum(const TensorFile& file) {
  std::string all;
  for (const auto& [key, value] : file.metadata) {
    if (key != kChecksum)
      all += sha256(key.data(), key.size()) + sha256(value.data(), value.size());
  }
  for (const auto& [name, tensor] : file.tensors) {
    all += sha256(name.data(), name.size()) + sha256(tensor.data(), tensor.bytes());
    for (const Index extent : tensor.shape()) all += "," + std::to_string(extent);
  }
  return sha256(all.data(), all.size());
}

void write_checkpoint(const std::filesystem::path& path, Communicator& communicator,
                      const Identity& identity, const Parameters& parameters,
                      const History& history) {
  TensorFile file;
  for (const Parameter& p : parameters.all()) {
    each_tensor(p, [&](const std::string& name, const Tensor& part) {
      file.tensors.emplace(name, whole(communicator, p, part));
    });
  }
  if (communicator.rank() == 0) {
    file.tensors.emplace("history.loss", of_list(history.losses));
    file.tensors.emplace("history.rate", of_list(history.rates));
    file.tensors.emplace("history.norm", of_list(history.norms));
    file.metadata.insert(identity.begin(), identity.end());
    file.metadata[kKind] = kCheckpoint;
    file.metadata[kDigests] = digest_csv(history.digests.rows());
    file.metadata[kChecksum] = checkpoint_checksum(file);
    write_safetensors(path, file);
  }
  communicator.barrier();
}

History read_checkpoint(const std::filesystem::path& path, const Communicator& communicator,
                        const Identity& identity, Parameters& parameters) {
  const Reader reader(path);
  reader.check(identity);
  for (Parameter& p : parameters.all()) {
    each_tensor(p, [&](const std::string& name, Tensor& part) {
      const Tensor& all = reader.tensor(name, whole_shape(p, communicator.size()));
      const bool cut = p.sharding == Sharding::experts;
      const std::size_t first = cut ? static_cast<std::size_t>(communicator.rank()) : 0;
      std::memcpy(part.data(), all.data() + first * part.bytes(), part.bytes());
    });
  }
  History history;
  history.losses = reader.list("history.loss");
  history.rates = reader.list("history.rate");
  history.norms = reader.list("history.norm");
  if (history.rates.size() != history.losses.size() ||
      history.norms.size() != history.losses.size()) {
    reader.fail("its lists differ in length");
  }
  history.digests.restore(parse_digest_csv(reader.text(kDigests), path.string()));
  return history;
}

}  // namespace mxo::tools
