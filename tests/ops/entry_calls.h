// Calls of the catalogue as lines of text, and what of them reaches a backend.
#pragma once

#include <set>

#include <gtest/gtest.h>

#include "tests/ops/fields.h"
#include "tests/support/operands_of.h"
#include "tests/support/refusal.h"

namespace mxo {

/// Computes nothing, and new memory is zeros: keeps every operator in words that are asked for
/// after the call.
class KeepingBackend : public Bare {
 public:
  std::byte* allocate(std::size_t bytes) override {
    std::byte* memory = Backend::allocate(bytes);
    std::fill_n(memory, bytes, std::byte{0});
    return memory;
  }

  /// The fields that came; before those of an operator that is not `own` its name.
  std::string words(std::string_view own, const FieldWords::Told& told) const {
    std::string text;
    for (const auto& [op, write] : kept_) {
      text += (text.empty() ? "" : "; ") + (op == own ? "" : std::string(op) + ": ") +
              write(FieldWords(told));
    }
    return text;
  }

 protected:
#define MXO_KEEP(Op, op_name)                                                         \
  void run(const Op& op) override {                                                   \
    kept_.emplace_back(op_name, [op](const FieldWords& words) { return words(op); }); \
  }
  MXO_OPERATORS(MXO_KEEP)
#undef MXO_KEEP

 private:
  std::vector<std::pair<std::string_view, std::function<std::string(const FieldWords&)>>> kept_;
};

/// An entry of the catalogue with operands of add_operand; "y > bf16 2 3" is memory for an output.
class EntryCall {
 public:
  EntryCall(std::string_view op, std::string_view operands) : op_(op) {
    std::istringstream list{std::string(operands)};
    for (std::string operand; std::getline(list, operand, ',');) {
      const std::size_t home = operand.find(" > ");
      if (home != std::string::npos) operand.erase(home, 2);
      add_operand(operand, home == std::string::npos ? in_ : homes_);
    }
  }
  /// What reaches the backend under these settings, or what the call is refused with.
  std::string reaches(const std::string& settings) {
    KeepingBackend backend;
    NamedViews views = in_;
    for (auto& [name, home] : homes_) views.write_to(name, home);
    NamedTensors out;
    const std::string refused = refusal([&] {
      Parameters set;
      std::istringstream words(settings);
      for (std::string word; words >> word;) set.set(word);
      out = call_operator(backend, op_, views, set);
    });
    if (!refused.empty()) return refused;
    std::set<std::string> seen;
    std::string text = backend.words(op_, [&](const Operand& view) {
      for (const NamedTensors* tensors : {&in_, &out, &homes_}) {
        for (const auto& [name, tensor] : *tensors) {
          if (tensor.data() != view.data) continue;
          seen.insert(name);
          const std::string own = shown(tensor.operand());
          const bool made = tensors == &out && own != shown(view);
          return name + " " + shown(view) + (made ? " kept as " + own : "");
        }
      }
      return "? " + shown(view);
    });
    for (const auto& [name, tensor] : out)
      if (!seen.contains(name)) text += ", made " + name + " " + shown(tensor.operand());
    return text;
  }

 private:
  /// "bf16 2x3"
  static std::string shown(const Operand& view) {
    std::string text(name_of(view.dtype));
    for (int i = 0; i < view.rank; ++i)
      text += (i > 0 ? "x" : " ") + std::to_string(view.extent[i]);
    return text;
  }
  std::string_view op_;
  NamedTensors in_, homes_;
};

/// Lines "operator: operand, operand"; under each "  key=value key=value -> what reaches", which
/// goes on where lines begin with six spaces.
inline void expect_reached(const char* table) {
  std::vector<std::string> lines;
  std::istringstream text(table);
  for (std::string line; std::getline(text, line);) {
    const bool goes_on = line.starts_with("      ");
    if (goes_on) lines.back() += line.substr(5);
    if (!goes_on && !line.empty()) lines.push_back(line);
  }
  std::string call;
  for (const std::string& line : lines) {
    if (!line.starts_with(' ')) {
      call = line;
      continue;
    }
    const std::size_t operands = call.find(": "), arrow = line.find("-> ");
    EntryCall entry(std::string_view(call).substr(0, operands), call.substr(operands + 2));
    EXPECT_EQ(entry.reaches(line.substr(0, arrow)), line.substr(arrow + 3)) << call << "\n" << line;
  }
}

}  // namespace mxo
