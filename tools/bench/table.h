// A table as it is printed and as JSON: columns, rows of cells, notes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace mxo::tools {

/// What was timed: seconds.
struct Sample {
  double median = 0.0;
  double least = 0.0;
  double most = 0.0;
  int n = 0;
};
/// Of at least one time.
Sample sample_of(std::vector<double> seconds);

inline constexpr double kMicroseconds = 1e6;

struct Cell {
  std::string text;
  nlohmann::ordered_json json;
};
Cell absent();  ///< "-", null: there is no such figure
Cell words(std::string text);
Cell tally(long long number);
Cell figure(double value, int digits);
Cell bytes(std::size_t count);  ///< "1.23 MB"; JSON has the count
/// Median and spread, (most - least) / median: "525.1 +-3 %".  `unit` is that of a second: 1e6.
Cell timed(const Sample& sample, double unit);

/// Cells under the names of their columns; every row of a table has the same.
using Cells = std::vector<std::pair<std::string, Cell>>;

struct Table {
  std::string name;
  std::string title;
  std::vector<Cells> rows;
  std::vector<std::string> notes;
};

/// To stdout: aligned columns, or one JSON object.
void print(const Table& table);
void print_json(const Table& table, const nlohmann::ordered_json& about);

}  // namespace mxo::tools
