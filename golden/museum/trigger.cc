// Faults taken through the suites.
#include "golden/museum/trigger.h"

#include <utility>

#include "formats/error.h"
#include "golden/museum/judged.h"
#include "golden/suites/suites.h"

namespace mxo {
namespace {

constexpr int kLevel = 1;

std::vector<std::string> notes_of(const std::vector<TensorVerdict>& verdicts) {
  std::vector<std::string> notes;
  for (const TensorVerdict& verdict : verdicts) notes.push_back(verdict.note);
  return notes;
}

/// What compare says, where it says more of the faulty outputs than of the right ones, which
/// `right` holds.
std::optional<std::string> shown(Backend& backend, const Exhibit& exhibit, const Planted& right) {
  Planted planted{right.call, right.expected, {}};
  try {
    Answer wrong = exhibit.answer(backend, planted.call, planted.expected);
    if (!wrong) return std::nullopt;
    planted.actual = std::move(*wrong);
  } catch (const Error&) {
    return std::nullopt;  // the altered call is none that the operator takes
  }
  const std::vector<TensorVerdict> verdicts = judged(planted);
  const bool said = exhibit.names == "same" && notes_of(verdicts) != notes_of(judged(right));
  if (all_pass(verdicts) && !said) return std::nullopt;
  return in_short(verdicts);
}

}  // namespace

std::vector<std::optional<Triggered>> triggered_by_suites(Backend& backend, World& world,
                                                          std::span<const Exhibit> faults) {
  std::vector<std::optional<Triggered>> found(faults.size());
  for (const Suite& suite : suites()) {
    for (const SuiteCase& item : suite.cases(kLevel)) {
      const auto wanted = [&](std::size_t i) { return !found[i] && faults[i].op == item.op; };
      std::optional<Planted> right;
      for (std::size_t i = 0; i < faults.size(); ++i) {
        if (!wanted(i)) continue;
        if (!right) {
          right.emplace();
          right->call =
              make_call(item.op, item.inputs(InputStream(0, item.id)), Parameters(item.parameters));
          right->call.world = &world;
          right->expected = run_call(backend, right->call);
          right->actual = right->expected;
        }
        if (auto verdict = shown(backend, faults[i], *right)) {
          found[i] = Triggered{std::string(suite.name), item.id, std::move(*verdict)};
        }
      }
    }
  }
  return found;
}

std::string markdown_head() {
  return "| # | report | fault | suite: case that shows it | compare says | explain says |\n"
         "|---|---|---|---|---|---|\n";
}

std::string markdown_row(const Exhibit& exhibit, const std::optional<Triggered>& triggered) {
  std::string row = "| " + std::to_string(exhibit.number) + " | " + std::string(exhibit.reports) +
                    " | " + std::string(exhibit.fault) + " | ";
  if (!triggered) return row + "none | - |";
  return row + triggered->suite + ": " + triggered->id + " | " + triggered->verdict + " |";
}

}  // namespace mxo
