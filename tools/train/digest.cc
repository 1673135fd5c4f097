// Digests of digests, their file, and the first row in which two of them part.
#include "tools/train/digest.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/sha256.h"

namespace mxo::tools {
namespace {

constexpr const char* kHeader = "step,stage,digest,chain";

std::string of_text(const std::string& text) { return sha256(text.data(), text.size()); }

std::string chained(const std::string& before, Index step, const std::string& stage,
                    const std::string& digest) {
  return of_text(fmt::format("{},{},{},{}", before, step, stage, digest));
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

void DigestLog::add(Communicator& communicator, Index step, const std::string& stage,
                    const std::vector<Bytes>& units) {
  std::string mine;
  for (const Bytes unit : units) mine += sha256(unit.data(), unit.size());
  std::string all;
  for (const auto& part : communicator.all_gather(std::as_bytes(std::span(mine)))) {
    all.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  const std::string before = rows_.empty() ? "" : rows_.back().chain;
  const std::string digest = of_text(all);
  rows_.push_back({step, stage, digest, chained(before, step, stage, digest)});
}

std::string digest_csv(const std::vector<DigestRow>& rows) {
  std::string text = std::string(kHeader) + "\n";
  for (const DigestRow& row : rows) {
    text += fmt::format("{},{},{},{}\n", row.step, row.stage, row.digest, row.chain);
  }
  return text;
}

std::vector<DigestRow> parse_digest_csv(const std::string& text, const std::string& source) {
  std::istringstream file(text);
  std::vector<DigestRow> rows;
  std::string line;
  const auto fail = [&](Index number, const std::string& what) {
    throw Error(Fault::file, fmt::format("{}: line {}: {}", source, number, what));
  };
  std::getline(file, line);
  if (line != kHeader) fail(1, "found '" + line + "', needs '" + kHeader + "'");
  for (Index number = 2; std::getline(file, line); ++number) {
    const std::vector<std::string> fields = fields_of(line);
    DigestRow row;
    if (fields.size() != 4) fail(number, "needs four fields");
    const char* end = fields[0].data() + fields[0].size();
    if (std::from_chars(fields[0].data(), end, row.step).ptr != end || fields[0].empty()) {
      fail(number, "found step '" + fields[0] + "', needs a number");
    }
    row.stage = fields[1];
    row.digest = fields[2];
    row.chain = fields[3];
    if (row.chain !=
        chained(rows.empty() ? "" : rows.back().chain, row.step, row.stage, row.digest)) {
      fail(number, "the chain does not follow from the rows before it");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<DigestRow> read_digest_csv(const std::filesystem::path& path) {
  return parse_digest_csv(read_text_file(path), path.string());
}

std::optional<DigestDifference> first_difference(const std::vector<DigestRow>& a,
                                                 const std::vector<DigestRow>& b) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (a[i] == b[i]) continue;
    if (a[i].step == b[i].step && a[i].stage == b[i].stage) {
      return DigestDifference{a[i].step, a[i].stage, "digests differ"};
    }
    const auto has = [](const std::vector<DigestRow>& rows, const DigestRow& wanted) {
      return std::any_of(rows.begin(), rows.end(), [&](const DigestRow& row) {
        return row.step == wanted.step && row.stage == wanted.stage;
      });
    };
    const bool lacks = !has(b, a[i]);
    const DigestRow& row = lacks ? a[i] : b[i];
    return DigestDifference{row.step, row.stage,
                            fmt::format("the {} file has no such row", lacks ? "second" : "first")};
  }
  if (a.size() == b.size()) return std::nullopt;
  const DigestRow& row = (a.size() > common ? a : b)[common];
  return DigestDifference{row.step, row.stage,
                          fmt::format("the {} file ends before it; {} digests agree",
                                      a.size() > common ? "second" : "first", common)};
}

}  // namespace mxo::tools
