// Cells, columns and how they are printed.
#include "tools/bench/table.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace mxo::tools {

Sample sample_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back(),
          static_cast<int>(seconds.size())};
}

Cell absent() { return {"-", nullptr}; }
Cell words(std::string text) { return {text, text}; }
Cell tally(long long number) { return {std::to_string(number), number}; }
Cell figure(double value, int digits) { return {fmt::format("{:.{}f}", value, digits), value}; }

Cell bytes(std::size_t count) {
  constexpr std::array kUnits{"B", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 < kUnits.size(); ++unit) value /= 1000.0;
  return {fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 2, kUnits[unit]), count};
}

Cell timed(const Sample& sample, double unit) {
  const double median = sample.median * unit;
  const double spread =
      sample.median > 0.0 ? 100.0 * (sample.most - sample.least) / sample.median : 0.0;
  return {fmt::format("{:.{}f} +-{:.0f} %", median, median < 100.0 ? 2 : 0, spread),
          {{"median", median},
           {"least", sample.least * unit},
           {"most", sample.most * unit},
           {"n", sample.n}}};
}

void print(const Table& table) {
  fmt::print("{}\n", table.title);
  if (!table.rows.empty()) {
    const Cells& first = table.rows.front();
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < first.size(); ++c) {
      std::size_t width = first[c].first.size();
      for (const Cells& row : table.rows) width = std::max(width, row[c].second.text.size());
      widths.push_back(width);
    }
    const auto line = [&](auto&& text_of) {
      std::string text;
      for (std::size_t c = 0; c < first.size(); ++c) {
        const bool left = first[c].second.json.is_string();
        text += left ? fmt::format("{:<{}}", text_of(c), widths[c])
                     : fmt::format("{:>{}}", text_of(c), widths[c]);
        text += "  ";
      }
      text.erase(text.find_last_not_of(' ') + 1);
      fmt::print("{}\n", text);
    };
    line([&](std::size_t c) { return first[c].first; });
    for (const Cells& row : table.rows) line([&](std::size_t c) { return row[c].second.text; });
  }
  for (const std::string& note : table.notes) fmt::print("{}\n", note);
}

void print_json(const Table& table, const nlohmann::ordered_json& about) {
  nlohmann::ordered_json all = {{"table", table.name}, {"title", table.title}};
  all.update(about);
  all["rows"] = nlohmann::ordered_json::array();
  for (const Cells& row : table.rows) {
    nlohmann::ordered_json one;
    for (const auto& [column, cell] : row) one[column] = cell.json;
    all["rows"].push_back(std::move(one));
  }
  all["notes"] = table.notes;
  fmt::print("{}\n", all.dump(2));
}

}  // namespace mxo::tools
