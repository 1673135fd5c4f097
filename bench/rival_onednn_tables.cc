// What oneDNN takes for the rows of `mxo bench`, which runs this as it runs rival_tables.py:
// grouped products in bf16, forward, or forward and backward.
//
// Arguments: threads, repeats, a JSON list of questions.  Prints one JSON object.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <omp.h>
#include <dnnl.hpp>
#include <nlohmann/json.hpp>

#include "bench/rival_onednn.h"

namespace mxo::bench {
namespace {

using nlohmann::json;

/// Numbers near 1, of both signs.
std::vector<BF16> numbers(Index count) {
  std::vector<BF16> values(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (BF16& v : values) {
    state = state * 1664525u + 1013904223u;
    v.bits = static_cast<std::uint16_t>(0x3F00u | (state >> 16 & 0x80FFu));
  }
  return values;
}

/// Groups as rival_tables.py has them.
std::vector<Index> even_ends(Index rows, Index groups) {
  std::vector<Index> ends;
  for (Index g = 1; g < groups; ++g) ends.push_back(rows * g / groups / 32 * 32);
  ends.push_back(rows);
  return ends;
}

struct Layer {
  Index rows, n, k, groups;
  std::vector<BF16> x = numbers(rows * k), w = numbers(groups * n * k), dy = numbers(rows * n);
  std::vector<BF16> y = numbers(rows * n), dx = numbers(rows * k), dw = numbers(groups * n * k);

  void run(bool backward) {
    Index begin = 0;
    const std::vector<Index> ends = even_ends(rows, groups);
    for (Index g = 0; g < groups; ++g) {
      const Index m = ends[static_cast<std::size_t>(g)] - begin;
      const BF16* from_x = x.data() + begin * k;
      const BF16* from_dy = dy.data() + begin * n;
      const BF16* of_w = w.data() + g * n * k;
      onednn_product({from_x, k, 1}, {of_w, 1, k}, y.data() + begin * n, m, n, k);
      if (backward) {
        onednn_product({from_dy, n, 1}, {of_w, k, 1}, dx.data() + begin * k, m, k, n);
        onednn_product({from_dy, 1, n}, {from_x, k, 1}, dw.data() + g * n * k, n, k, m);
      }
      begin += m;
    }
  }
};

std::vector<double> seconds(Layer& layer, bool backward, int repeats) {
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    layer.run(backward);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i > 0) times.push_back(took.count());
  }
  return times;
}

json answers_to(const json& questions, int repeats) {
  json rows = json::array();
  bool any = false;
  for (const json& question : questions) {
    const std::string kind = question.value("kind", "");
    rows.push_back(json::object());
    if (kind != "product" && kind != "linear") continue;
    Layer layer{question.at("rows"), question.at("n"), question.at("k"), question.at("groups")};
    rows.back()["oneDNN"] = seconds(layer, kind == "linear", repeats);
    any = true;
  }
  const dnnl_version_t* v = dnnl_version();
  const std::string version =
      std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  return {{"rows", rows}, {"note", any ? "oneDNN " + version + " in bf16" : ""}};
}

}  // namespace
}  // namespace mxo::bench

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    omp_set_num_threads(std::max(1, std::atoi(argv[1])));
    const auto questions = nlohmann::json::parse(argv[3]);
    std::puts(mxo::bench::answers_to(questions, std::atoi(argv[2])).dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rival_onednn: %s\n", error.what());
    return 3;
  }
}
