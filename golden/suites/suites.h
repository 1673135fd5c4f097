// The named suites: which cases there are, with which inputs, and why.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "golden/files/expectation.h"
#include "golden/files/manifest.h"
#include "golden/suites/input_stream.h"
#include "ops/catalogue.h"

namespace mxo {

/// The value of a parameter that `op` takes, given or default; empty where it takes none.  Throws
/// Error(argument) for an unknown operator.
std::string parameter_of(std::string_view op,
                         const std::map<std::string, std::string, std::less<>>& given,
                         std::string_view key);

/// One case as data.  `inputs` depends on nothing but its argument.
struct SuiteCase {
  std::string id;  ///< append-only
  std::string op;
  std::map<std::string, std::string, std::less<>> parameters;
  std::vector<std::string> flags;  ///< of golden/suites/edge_flags.h
  std::function<NamedTensors(const InputStream&)> inputs;
  std::string source = {};  ///< empty: exact, definition or `model:NAME`, by the sum named
  std::map<std::string, Expectation, std::less<>> expect = {};  ///< outputs not named: bit_exact
  /// Inputs of which the case holds some rows of something larger.
  std::map<std::string, SampledFrom, std::less<>> sampled = {};
};

struct Suite {
  std::string_view name;
  std::string_view purpose;
  /// The cases of `level`, those of lower levels included.
  std::vector<SuiteCase> (*cases)(int level);
};

inline constexpr int kMaxLevel = 2;

/// Every suite, in the order of `mxo list suites`.
std::span<const Suite> suites();
/// The cases of one suite, or of "all".  Throws Error(argument) naming the suites there are.
std::vector<SuiteCase> suite_cases(std::string_view suite, int level);

}  // namespace mxo
