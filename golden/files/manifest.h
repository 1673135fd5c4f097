// manifest.json: what a suite on disk is, and the checksum of everything in it.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "formats/tensor_view.h"
#include "golden/files/expectation.h"

namespace mxo {

inline constexpr std::string_view kManifestSchema = "mxo-vectors/1";
inline constexpr std::string_view kGenerator = "mxoracle 0.1.0";
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kCasesFolder = "cases";

enum class Role : std::uint8_t { input, expected };

/// The whole of an operand of which a case holds some rows, or other values.
struct SampledFrom {
  std::vector<Index> shape;
  std::vector<Index> rows;    ///< that the case holds, in its order; so of each output
  std::uint32_t stream = 0;   ///< of the counter-based generator, by element of the whole
  std::vector<Index> values;  ///< of all of group_ends
  bool given() const { return !shape.empty(); }
};

struct ManifestOperand {
  std::string name;
  Role role = Role::input;
  Dtype format = Dtype::u8;  ///< what the bytes mean; 8-bit formats are stored as U8
  std::vector<Index> shape;
  std::string sha256;  ///< of the elements, little endian
  std::string tensor;  ///< its name in the case file, where that is not `name`
  Expectation expect;  ///< of an expected operand
  SampledFrom sampled = {};

  const std::string& stored_name() const { return tensor.empty() ? name : tensor; }
};

struct ManifestCase {
  std::string id;  ///< append-only: an id never changes its meaning
  std::string op;
  std::map<std::string, std::string, std::less<>> parameters;
  std::string profile;  ///< empty where the operator takes none
  std::string sum;      ///< empty where the operator sums nothing
  std::string source;   ///< exact, definition, `model:NAME`, `captured:DEVICE`
  std::vector<std::string> flags;
  std::vector<ManifestOperand> operands;
  std::string sha256;  ///< of the case file
};

struct Manifest {
  std::string suite;
  int level = 0;
  std::uint64_t seed = 0;
  std::string generator;
  std::vector<ManifestCase> cases;
};

/// Deterministic JSON, ending in a newline.
std::string to_json(const Manifest& manifest);
/// Throws Error(file) "path: ..." on bad JSON, another major schema, a missing or mistyped field,
/// an id used twice or unfit for a file name.  Unknown fields are ignored.
Manifest parse_manifest(std::string_view text, std::string_view path);
/// Reads DIR/manifest.json.
Manifest read_manifest(const std::filesystem::path& suite);

/// Letters, digits, '.', '_' and '-', not beginning with '.': an id is also a file name.
bool is_case_id(std::string_view id);
std::filesystem::path case_file(const std::filesystem::path& suite, std::string_view id);

}  // namespace mxo
