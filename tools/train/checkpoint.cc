// Parameters gathered into a file, and cut into ranks again.
#include "tools/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "golden/files/sha256.h"
#include "tools/train/recipe.h"

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

void copy_part(const Parameter& p, const Communicator& communicator, const Tensor& all,
               Tensor& part) {
  const bool cut = p.sharding == Sharding::experts;
  const std::size_t first = cut ? static_cast<std::size_t>(communicator.rank()) : 0;
  std::memcpy(part.data(), all.data() + first * part.bytes(), part.bytes());
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
  const auto& metadata() const { return file_.metadata; }
  TensorFile take() { return std::move(file_); }
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
    each_list(history, [&](const char* name, const std::vector<float>& list) {
      file.tensors.emplace(std::string("history.") + name, of_list(list));
    });
    file.metadata.insert(identity.begin(), identity.end());
    file.metadata[kKind] = kCheckpoint;
    file.metadata[kDigests] = digest_csv(history.digests.rows());
    file.metadata[kChecksum] = checkpoint_checksum(file);
    write_safetensors(path, file);
  }
  communicator.barrier();
}

History read_checkpoint(const std::filesystem::path& path, const Communicator& communicator,
                        const Identity& identity, Parameters& parameters, Identity* found) {
  const Reader reader(path);
  reader.check(identity);
  for (Parameter& p : parameters.all()) {
    each_tensor(p, [&](const std::string& name, Tensor& part) {
      copy_part(p, communicator, reader.tensor(name, whole_shape(p, communicator.size())), part);
    });
  }
  History history;
  each_list(history, [&](const char* name, std::vector<float>& list) {
    list = reader.list(std::string("history.") + name);
    if (list.size() != reader.list("history.loss").size()) {
      reader.fail("its lists differ in length");
    }
  });
  history.digests.restore(parse_digest_csv(reader.text(kDigests), path.string()));
  if (found != nullptr) found->insert(reader.metadata().begin(), reader.metadata().end());
  return history;
}

Snapshot read_snapshot(const std::filesystem::path& path) {
  Reader reader(path);
  Snapshot snapshot;
  TrainOptions& o = snapshot.options;
  try {
    for (const OptionRow& row : option_rows()) o.set(row.key, reader.text(std::string(row.key)));
    snapshot.recipe = reader.text("recipe");
    check(o, 1);
    check(o, train_recipe_named(snapshot.recipe, o.format));
  } catch (const Error& error) {
    reader.fail(error.what());
  }
  // A model of these options is no larger than what the file holds.
  for (Index i = 0; i < o.layers; ++i) {
    const std::string layer = "value.layer" + std::to_string(i);
    reader.tensor(layer + ".attention.qkv", {3 * o.width, o.width});
    const std::string moe = layer + ".moe.";
    reader.tensor(moe + "w1", {o.experts, 2 * o.expert_width, o.width});
    if (o.shared_experts == 0) continue;
    reader.tensor(moe + "shared_w2", {o.width, o.shared_experts * o.expert_width});
  }
  snapshot.file = reader.take();
  return snapshot;
}

void read_values(const Snapshot& snapshot, const Communicator& communicator,
                 Parameters& parameters) {
  for (Parameter& p : parameters.all()) {
    const auto at = snapshot.file.tensors.find("value." + p.name);
    if (at == snapshot.file.tensors.end() || at->second.dtype() != Dtype::f32 ||
        at->second.shape() != whole_shape(p, communicator.size())) {
      throw Error(Fault::file, "checkpoint: has no tensor 'value." + p.name + "' of the model's");
    }
    copy_part(p, communicator, at->second, p.value);
  }
  for (const auto& [name, tensor] : snapshot.file.tensors) {
    const auto same = [&key = name](const Parameter& p) { return "value." + p.name == key; };
    if (name.starts_with("value.") &&
        std::none_of(parameters.all().begin(), parameters.all().end(), same))
      throw Error(Fault::file, "checkpoint: the model has no '" + name.substr(6) + "'");
  }
}

void keep_copies(const std::filesystem::path& directory, Index step, Index keep) {
  namespace fs = std::filesystem;
  if (keep == 1) return;
  constexpr std::string_view kBegin = "checkpoint-";
  constexpr std::string_view kEnd = ".safetensors";
  const auto number = [&](const fs::path& path) -> Index {  // of a copy's step, -1 of other files
    const std::string name = path.filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return -1;
    const std::string digits =
        name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    Index found = -1;
    const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found);
    return error == std::errc() && at == digits.data() + digits.size() ? found : -1;
  };
  std::error_code error;
  const fs::path copy =
      directory / (std::string(kBegin) + std::to_string(step) + std::string(kEnd));
  fs::remove(copy, error);
  // The next checkpoint takes the name by renaming: this file stays as it is.
  fs::create_hard_link(directory / "checkpoint.safetensors", copy, error);
  if (error) fs::copy_file(directory / "checkpoint.safetensors", copy, error);
  if (error) throw Error(Fault::file, copy.string() + ": " + error.message());
  std::map<Index, fs::path> copies;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const Index of = number(entry.path());  // a later one is of a run that was given up
    if (of >= 0 && of <= step) copies[of] = entry.path();
  }
  while (static_cast<Index>(copies.size()) > keep) {
    fs::remove(copies.begin()->second, error);
    copies.erase(copies.begin());
  }
}

}  // namespace mxo::tools
