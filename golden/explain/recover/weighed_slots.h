// Slots of tokens whose sums are not the expected ones: what each weighed, and hypotheses of it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "golden/explain/hypotheses.h"

namespace mxo {

/// A token whose sum is not the expected one, and what its slots weighed.
struct Token {
  std::string rank;
  Index row;
  std::vector<double> given;
  std::vector<double> seen;
  std::vector<double> sigma;
};

/// Weights of the tokens that were measured, each a function of (token, slot).
using Weights = std::function<double(const Token&, std::size_t)>;

class Slots {
 public:
  Slots(const Call& call, std::vector<Token> tokens, Index tokens_in_all)
      : call_(call), tokens_(std::move(tokens)), all_(tokens_in_all) {}

  const std::vector<Token>& tokens() const { return tokens_; }
  std::size_t slots() const { return tokens_.front().given.size(); }
  Index expert(const Token& t, std::size_t s) const;
  /// Whether a slot weighed what it was given, as far as anyone can tell.
  bool is_own(const Token& t, std::size_t s) const;
  bool fits(const Weights& weights) const;
  /// "slot 2 is left out", where every slot has its own weight but some that have `times` as much.
  void add_some(double times, const char* id, const std::string& what,
                std::vector<Hypothesis>& list) const;
  void add_if(const char* id, const std::string& words, const Weights& weights,
              std::vector<Hypothesis>& list) const {
    if (fits(weights)) add(id, words, weights, list);
  }
  /// The same of weights that the token `further` of rank(t) has.  Where there is none, nobody
  /// knows what was read; but most have to be there.
  void add_if_of(const char* id, const std::string& words,
                 const std::function<std::string(const Token&)>& rank, Index further,
                 std::vector<Hypothesis>& list) const;
  /// How far, in sigmas, weights of slot `from` are from what slot `s` weighed.
  double misfit(std::size_t s, std::size_t from) const;

 private:
  Index ranks() const;
  /// "slots 1 to 2" where all tokens are meant, else which of them, or how many.
  std::string of_slots(const std::set<Index>& slots,
                       const std::function<bool(const Token&, std::size_t)>& hit) const;
  /// "rank1", where its experts and no others are meant.
  std::string rank_of_all(const std::set<Index>& experts, const std::set<Index>& others) const;
  /// The tokens, where not nearly all are meant.
  std::string where() const;
  void add(const char* id, const std::string& words, const Weights& weights,
           std::vector<Hypothesis>& list) const;

  const Call& call_;
  std::vector<Token> tokens_;
  Index all_;
};

/// The weight that a slot was given; 1 where there are none.
double given_weight(const Call& call, const std::string& rank, Index row, Index slot, Index slots);

/// "slot 2 is weighed by 0.4 times its weight": one short number, in some slots.
void add_slot_fraction(const Slots& slots, std::vector<Hypothesis>& list);
/// Weights of a token that went to its other slots, in each token another way.
void add_permuted_weights(const Slots& slots, std::vector<Hypothesis>& list);

}  // namespace mxo
