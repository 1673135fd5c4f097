// Causes that a list has for a call, and what comes where one of them holds.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

struct CausesListed {
  using Adds = void (*)(const Call&, std::vector<Hypothesis>&);
  CausesListed(Call c, Adds adds) : call(std::move(c)) { adds(call, list); }

  /// The first cause of that name whose phrase has these words; null if there is none.
  const Hypothesis* find(std::string_view name, std::string_view words = "") const {
    for (const Hypothesis& h : list) {
      if (h.name == name && h.phrase.find(words) != std::string::npos) return &h;
    }
    return nullptr;
  }
  /// The same; throws where there is none.
  const Hypothesis& at(std::string_view name, std::string_view words = "") const {
    const Hypothesis* h = find(name, words);
    if (h == nullptr) throw std::out_of_range("no cause " + std::string(name));
    return *h;
  }
  /// Phrases of all whose names begin so.
  std::vector<std::string> phrases(std::string_view begin = "") const {
    std::vector<std::string> all;
    for (const Hypothesis& h : list) {
      if (h.name.starts_with(begin)) all.push_back(h.phrase);
    }
    return all;
  }
  std::vector<std::string> names(std::string_view begin = "") const {
    std::vector<std::string> all;
    for (const Hypothesis& h : list) {
      if (h.name.starts_with(begin)) all.push_back(h.name);
    }
    return all;
  }
  /// The call where it holds; nothing where it says nothing of it.
  std::optional<Call> altered(std::string_view name, std::string_view words = "") const {
    const Hypothesis* h = find(name, words);
    Call other = call;
    if (h == nullptr || !h->alter(other)) return std::nullopt;
    return other;
  }
  /// What comes of the call where it holds.
  std::optional<NamedTensors> come(std::string_view name, std::string_view words = "") const {
    const std::optional<Call> other = altered(name, words);
    if (!other) return std::nullopt;
    NamedTensors out = run_call(*backend, *other);
    return rewritten(name, std::move(out), words);
  }
  /// What it makes of these outputs.
  std::optional<NamedTensors> rewritten(std::string_view name, NamedTensors out,
                                        std::string_view words = "") const {
    const Hypothesis* h = find(name, words);
    if (h == nullptr || (h->rewrite && !h->rewrite(call, out))) return std::nullopt;
    return out;
  }

  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call;
  std::vector<Hypothesis> list;
};

}  // namespace mxo
