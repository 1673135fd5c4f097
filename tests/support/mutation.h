// One random change of what a file of tensors means.
#pragma once

#include "formats/philox.h"
#include "golden/files/tensor_file.h"

namespace mxo {

/// Random numbers of one seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() {
    const PhiloxWords words = philox(at_++, 17, seed_);
    return std::uint64_t{words.word[0]} << 32 | words.word[1];
  }
  /// 0 to n - 1; n is not 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  template <typename List>
  auto pick(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t at_ = 0;
};

struct Mutation {
  std::string what;    ///< "codes: a bit of byte 17"
  std::string tensor;  ///< that was changed; empty: metadata
};

/// Changes one thing of `file`: elements, integers, shape, type or name of one of `among` (tensors
/// it has), or a word of its metadata.
Mutation mutate(TensorFile& file, const std::vector<std::string>& among, Draw& draw);

}  // namespace mxo
