// What the actual scales of a product lead to.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/multiplied.h"

namespace mxo {

inline std::vector<Hypothesis> shown(const Call& call, const Differing& got) {
  std::vector<Hypothesis> list;
  add_measured_scales(call, got.output, list);
  return list;
}

/// Names of the hypotheses of scales, each once.
inline std::vector<std::string> names(const std::vector<Hypothesis>& list) {
  std::vector<std::string> found;
  for (const Hypothesis& h : list) {
    const bool of_scales = h.name.find(".scales=") != std::string::npos || h.name[0] == 'k';
    if (of_scales && std::find(found.begin(), found.end(), h.name) == found.end()) {
      found.push_back(h.name);
    }
  }
  return found;
}

inline std::vector<std::string> names(const Call& given, const Call& taken) {
  return names(shown(given, got_of(given, taken)));
}

/// x [10, 128] by w [40, 128]; scales are bytes that no two blocks of a line have alike.
inline Call bytes_call(Index rows = 10, Index columns = 40) {
  Call call = product_call({static_cast<std::int32_t>(rows)}, columns, 4);
  for (const char* name : {"x.scales", "w.scales"}) {
    call.replace(name, filled<std::uint8_t>(Dtype::e8m0, call.input(name).shape(),
                                            [](Index i) { return 120 + i % 4 * 3 + i / 4 % 3; }));
  }
  return call;
}

/// Scales of `name` edited by i: what is added to the byte.
inline Call shifted(const Call& call, const std::string& name,
                    const std::function<int(Index)>& by) {
  return edited<std::uint8_t>(call, name, [&](std::uint8_t* s) {
    for (Index i = 0; i < call.input(name).elements(); ++i) {
      s[i] = static_cast<std::uint8_t>(s[i] + by(i));
    }
  });
}

inline const Hypothesis* find(const std::vector<Hypothesis>& list, const std::string& name) {
  const auto at =
      std::find_if(list.begin(), list.end(), [&](const Hypothesis& h) { return h.name == name; });
  return at == list.end() ? nullptr : &*at;
}

}  // namespace mxo
