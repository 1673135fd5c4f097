// Schema mxo-explain/1.
#include <nlohmann/json.hpp>

#include "golden/explain/explain.h"

namespace mxo {

std::string to_json(const Explanation& explanation) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "mxo-explain/1"},
            {"verdict", name_of(explanation.verdict)},
            {"elements", explanation.elements},
            {"differing", explanation.differing}};
  json["causes"] = Json::array();
  for (const Cause& cause : explanation.causes) {
    Json where = Json::object();
    const auto put = [&where](const char* key, const std::string& text) {
      if (!text.empty()) where[key] = text;
    };
    put("tensor", cause.where.tensor);
    put("groups", cause.where.groups);
    put("rows", cause.where.rows);
    put("columns", cause.where.columns);
    put("blocks", cause.where.blocks);
    json["causes"].push_back({{"id", cause.id},
                              {"kind", cause.is_symptom() ? "symptom" : "cause"},
                              {"sentence", cause.sentence},
                              {"share", cause.share},
                              {"where", where}});
  }
  json["pattern"] = explanation.pattern;
  return json.dump(2);
}

}  // namespace mxo
