// A suite of recipes and digests: its manifest, and the file of digests of each case.
#include "golden/suites/shapes/shape_suite.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/json_field.h"
#include "golden/files/manifest.h"
#include "golden/files/safetensors.h"
#include "golden/files/sha256.h"

namespace mxo {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kCutNames[] = {"whole", "rows", "columns", "features"};
constexpr Index kRegionFields = 5;

Json input_json(const InputRecipe& recipe) {
  Json json{{"name", recipe.name},
            {"format", name_of(recipe.format)},
            {"shape", recipe.shape},
            {"kind", name_of(recipe.kind)}};
  if (recipe.kind == InputKind::values || recipe.kind == InputKind::codes) {
    json["distribution"] = name_of(recipe.distribution);
  }
  if (!recipe.values.empty()) json["values"] = recipe.values;
  const bool routed = recipe.kind == InputKind::experts || recipe.kind == InputKind::hot_experts ||
                      recipe.kind == InputKind::mask;
  if (routed) json["experts"] = recipe.choices;
  if (recipe.kind == InputKind::mask) json["top_k"] = recipe.slots;
  return json;
}

Json inputs_json(const ShapedCall& call) {
  Json inputs = Json::array();
  for (const ShapedInput& input : call.inputs) inputs.push_back(input_json(input.recipe));
  return inputs;
}

Json case_json(const ShapedCase& item) {
  const ShapedCall& call = item.call;
  Json json{{"id", item.id},
            {"op", call.op},
            {"parameters", call.set.all()},
            {"shape", to_text(call.dimensions)},
            {"seed", call.options.seed},
            {"distribution", name_of(call.options.distribution)},
            {"offsets", call.options.offsets},
            {"routing", call.options.routing},
            {"dtype", call.options.dtype},
            {"cut", kCutNames[static_cast<std::size_t>(call.cut)]},
            {"inputs", inputs_json(call)},
            {"outputs", Json::array()}};
  for (const ShapedOutput& output : item.outputs) {
    json["outputs"].push_back({{"name", output.whole.name},
                               {"format", name_of(output.whole.format)},
                               {"shape", output.whole.shape}});
  }
  json["sha256"] = item.sha256;
  return json;
}

Cut cut_named(const std::string& name) {
  const auto* at = std::find(std::begin(kCutNames), std::end(kCutNames), name);
  if (at == std::end(kCutNames)) throw Error(Fault::file, "cut: found '" + name + "'");
  return static_cast<Cut>(at - std::begin(kCutNames));
}

OutputShape parse_output(const Json& json) {
  OutputShape output{json_field<std::string>(json, "name"),
                     dtype_named(json_field<std::string>(json, "format")),
                     json_field<std::vector<Index>>(json, "shape")};
  double elements = 1;
  for (const Index extent : output.shape) {
    if (extent < 0) throw Error(Fault::file, output.name + ": found a negative extent");
    elements *= static_cast<double>(extent);
  }
  constexpr double kMost = 1e13;
  if (elements > kMost || output.shape.size() > kMaxRank) {
    throw Error(Fault::file, output.name + ": found a shape that no call gives");
  }
  return output;
}

ShapedCase parse_case(const Json& json) {
  ShapedCase item;
  item.id = json_field<std::string>(json, "id");
  if (!is_case_id(item.id)) throw Error(Fault::file, "id: found '" + item.id + "'");
  ShapeOptions options;
  options.seed = json_field<std::uint64_t>(json, "seed");
  options.distribution = distribution_named(json_field<std::string>(json, "distribution"));
  options.offsets = json_field<std::string>(json, "offsets");
  options.routing = json_field<std::string>(json, "routing");
  options.dtype = json_field<std::string>(json, "dtype");
  item.call = shaped_call(
      json_field<std::string>(json, "op"),
      Parameters(json_field<std::map<std::string, std::string, std::less<>>>(json, "parameters")),
      parse_dimensions(json_field<std::string>(json, "shape")), options);
  const Cut cut = cut_named(json_field<std::string>(json, "cut"));
  if (cut != item.call.cut && cut != Cut::whole) {
    throw Error(Fault::file, "cut: found one that " + item.call.op + " does not have");
  }
  item.call.cut = cut;
  if (json_field<Json>(json, "inputs") != inputs_json(item.call)) {
    throw Error(Fault::file, "inputs: are not those of " + item.call.op + " at this shape");
  }
  for (const Json& output : json_field<std::vector<Json>>(json, "outputs"))
    item.outputs.push_back({parse_output(output), {}});
  item.sha256 = json_field<std::string>(json, "sha256");
  return item;
}

/// Each element lies in exactly one region, and regions are in the order of slices: all of a slice
/// stand together.
bool hold_each_once(const std::vector<Region>& regions, const Box& all) {
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (i > 0 && regions[i].slice < regions[i - 1].slice) return false;
    const Box& box = regions[i].box;
    if (box.rows() > 0 && box.columns() > 0) boxes.push_back(box);
  }
  // A grid: regions of the same columns lie below each other, others beside each other.
  const auto place = [](const Box& box) {
    return std::tuple(box.column_begin, box.column_end, box.row_begin);
  };
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box& a, const Box& b) { return place(a) < place(b); });
  const auto meet = [](const Box& a, const Box& b) {
    const bool below = a.column_begin == b.column_begin && a.column_end == b.column_end;
    return below ? b.row_begin < a.row_end : b.column_begin < a.column_end;
  };
  if (std::adjacent_find(boxes.begin(), boxes.end(), meet) != boxes.end()) return false;
  Index held = 0;
  for (const Box& box : boxes) held += box.rows() * box.columns();
  return held == all.rows() * all.columns();
}

std::byte nibble(char c) { return static_cast<std::byte>(c <= '9' ? c - '0' : c - 'a' + 10); }

}  // namespace

Digest digest_of(const std::byte* bytes, std::size_t size) {
  const std::string hex = sha256(bytes, size);
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = (nibble(hex[2 * i]) << 4) | nibble(hex[2 * i + 1]);
  }
  return digest;
}

bool is_shape_suite(const std::filesystem::path& suite) {
  std::error_code error;
  const std::filesystem::path path = suite / kManifestName;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  try {
    const auto json = parse_json<Json>(read_text_file(path));
    return json.is_object() && json.contains("schema") && json["schema"] == kShapesSchema;
  } catch (const std::exception&) {
    return false;  // read_manifest says what is wrong with it
  }
}

std::string to_json(const ShapeSuite& suite) {
  Json json{{"schema", kShapesSchema},
            {"suite", suite.name},
            {"generator", kGenerator},
            {"cases", Json::array()}};
  for (const ShapedCase& item : suite.cases) json["cases"].push_back(case_json(item));
  return json.dump(1) + "\n";
}

ShapeSuite read_shape_suite(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kManifestName;
  ShapeSuite suite;
  try {
    const auto json = parse_json<Json>(read_text_file(path));
    suite.name = json_field<std::string>(json, "suite");
    std::set<std::string> ids;
    for (const Json& item : json_field<std::vector<Json>>(json, "cases")) {
      suite.cases.push_back(parse_case(item));
      if (!ids.insert(suite.cases.back().id).second) {
        throw Error(Fault::file, "duplicate id " + suite.cases.back().id);
      }
    }
  } catch (const std::exception& error) {  // ours, or the JSON library's
    const std::string text = error.what();
    const bool named = text.starts_with(path.string());
    throw Error(Fault::file, named ? text : path.string() + ": " + text);
  }
  return suite;
}

void write_digests(const std::filesystem::path& path, ShapedCase& item) {
  TensorFile file;
  file.metadata = {{std::string(kSchemaKey), std::string(kDigestsSchema)}, {"mxo.case", item.id}};
  for (const ShapedOutput& output : item.outputs) {
    const auto count = static_cast<Index>(output.regions.size());
    Tensor regions(Dtype::i64, {count, kRegionFields});
    Tensor digests(Dtype::u8, {count, static_cast<Index>(sizeof(Digest))});
    for (Index i = 0; i < count; ++i) {
      const Region& region = output.regions[static_cast<std::size_t>(i)];
      const Box& box = region.box;
      const Index fields[] = {region.slice, box.row_begin, box.row_end, box.column_begin,
                              box.column_end};
      std::copy(std::begin(fields), std::end(fields),
                regions.as<std::int64_t>() + i * kRegionFields);
      std::memcpy(digests.data() + static_cast<std::size_t>(i) * sizeof(Digest),
                  region.digest.data(), sizeof(Digest));
      if (region.rows.empty()) continue;
      Tensor rows(Dtype::u8, {static_cast<Index>(region.rows.size())});
      std::memcpy(rows.data(), region.rows.data(), region.rows.size());
      file.tensors.emplace(output.whole.name + ".rows." + std::to_string(i), std::move(rows));
    }
    file.tensors.emplace(output.whole.name + ".regions", std::move(regions));
    file.tensors.emplace(output.whole.name + ".digests", std::move(digests));
  }
  write_safetensors(path, file);
  item.sha256 = sha256_of_file(path);
}

void read_digests(const std::filesystem::path& path, ShapedCase& item) {
  if (sha256_of_file(path) != item.sha256) {
    throw Error(Fault::file, path.string() + ": sha256 differs from the manifest's");
  }
  const TensorFile file = read_safetensors(path);
  const auto held = std::count_if(file.tensors.begin(), file.tensors.end(), [](const auto& tensor) {
    return tensor.first.ends_with(".regions");
  });
  if (held != static_cast<std::ptrdiff_t>(item.outputs.size())) {
    throw Error(Fault::file, path.string() + ": has " + std::to_string(held) +
                                 " outputs, the manifest names " +
                                 std::to_string(item.outputs.size()));
  }
  const auto slices = static_cast<Index>(Slicer(item.call).slices().size());
  for (ShapedOutput& output : item.outputs) {
    const auto regions = file.tensors.find(output.whole.name + ".regions");
    const auto digests = file.tensors.find(output.whole.name + ".digests");
    const std::string where = path.string() + ": " + output.whole.name;
    if (regions == file.tensors.end() || digests == file.tensors.end()) {
      throw Error(Fault::file, where + ": has no regions or no digests");
    }
    const Index count = regions->second.rank() == 2 ? regions->second.extent(0) : -1;
    if (regions->second.dtype() != Dtype::i64 || digests->second.dtype() != Dtype::u8 ||
        regions->second.shape() != std::vector<Index>{count, kRegionFields} ||
        digests->second.shape() != std::vector<Index>{count, Index{sizeof(Digest)}}) {
      throw Error(Fault::file, where + ": needs regions i64 [n, 5] and digests u8 [n, 32]");
    }
    const Box all = whole_box(output.whole.shape);
    for (Index i = 0; i < count; ++i) {
      const std::int64_t* f = regions->second.as<std::int64_t>() + i * kRegionFields;
      Region region{f[0], {f[1], f[2], f[3], f[4]}, {}, {}};
      const Box& box = region.box;
      if (region.slice < 0 || region.slice >= slices || box.row_begin < 0 || box.rows() < 0 ||
          box.row_end > all.row_end || box.column_begin < 0 || box.columns() < 0 ||
          box.column_end > all.column_end) {
        throw Error(Fault::file, where + ": region " + std::to_string(i) + " lies outside");
      }
      std::memcpy(region.digest.data(),
                  digests->second.data() + static_cast<std::size_t>(i) * sizeof(Digest),
                  sizeof(Digest));
      const auto rows = file.tensors.find(output.whole.name + ".rows." + std::to_string(i));
      if (rows != file.tensors.end()) {
        region.rows.assign(rows->second.data(), rows->second.data() + rows->second.bytes());
      }
      output.regions.push_back(std::move(region));
    }
    if (!hold_each_once(output.regions, all)) {
      throw Error(Fault::file, where + ": its regions do not hold each element once");
    }
  }
}

}  // namespace mxo
