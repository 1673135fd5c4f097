// A suite whose operands are recipes and whose expectations are digests, on disk.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "golden/suites/shapes/slices.h"

namespace mxo {

inline constexpr std::string_view kShapesSchema = "mxo-shapes/1";
inline constexpr std::string_view kDigestsSchema = "mxo-digests/1";

using Digest = std::array<std::byte, 32>;  ///< SHA-256
Digest digest_of(const std::byte* bytes, std::size_t size);

/// Part of an output that one slice gives, and the digest of its bytes, row after row.
struct Region {
  Index slice = 0;
  Box box;
  Digest digest = {};
  std::vector<std::byte> rows = {};  ///< of some regions: all bytes, or those of the first row
  friend bool operator==(const Region&, const Region&) = default;
};

struct ShapedOutput {
  OutputShape whole;
  std::vector<Region> regions;  ///< every element in one of them
};

struct ShapedCase {
  std::string id;
  ShapedCall call;
  std::vector<ShapedOutput> outputs;
  std::string sha256;  ///< of the file with the digests
};

struct ShapeSuite {
  std::string name;
  std::vector<ShapedCase> cases;
};

/// True where the directory's manifest is one of these.
bool is_shape_suite(const std::filesystem::path& suite);
/// Deterministic JSON, ending in a newline.
std::string to_json(const ShapeSuite& suite);
/// Reads DIR/manifest.json and makes the calls again; operands that the manifest describes
/// otherwise are an error.  Outputs have no regions yet.  Throws Error(file).
ShapeSuite read_shape_suite(const std::filesystem::path& directory);

/// The digests of a case, to a file that is made whole or not at all; sets `item.sha256`.
void write_digests(const std::filesystem::path& path, ShapedCase& item);
/// Throws Error(file) where the checksum, a region or a digest does not fit.
void read_digests(const std::filesystem::path& path, ShapedCase& item);

}  // namespace mxo
