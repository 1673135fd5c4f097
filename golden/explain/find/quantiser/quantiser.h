// What a quantiser did otherwise, and codes and scale bytes that are read as other numbers: blocks
// of x that share a scale, and what the rule that is asked for makes of them.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/dtype.h"
#include "formats/rounding.h"
#include "formats/scale_rules.h"
#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/scale_map.h"

namespace mxo {

/// x [.., R, K] and which scale each element belongs to.
struct Blocks {
  const Tensor* x = nullptr;
  ScaleMap map;
  Index columns = 0;        ///< K
  Index block_columns = 1;  ///< that share a scale
  Index scales = 0;
  bool tiled = false;                              ///< scales lie in 128x4 tiles
  std::shared_ptr<const Tensor> turned = nullptr;  ///< x, where codes are transposed

  const char* name() const { return turned ? "x transposed" : "x"; }

  Index scale_columns() const { return ceil_div(columns, block_columns); }
  float value(Index i) const { return wide_value(*x, i); }
  /// The scale that element i belongs to; -1: none.
  Index scale_of(Index i) const { return map(i); }
};

/// A number for every scale: the largest magnitude of its block, or what else may have been taken
/// for it.  NaN where a value of the block is none.
std::vector<float> amax_of(const Blocks& blocks);

/// What may have been taken in place of the largest magnitude of a block.
struct AmaxWindow {
  std::string words;  ///< "the block before"
  std::vector<float> amax;
};
std::vector<AmaxWindow> other_windows(const Blocks& blocks, const std::vector<float>& amax);

/// Rows and columns of x, its matrices one after the other, that share a scale.
struct BlockPlace {
  Index row = 0;
  Index rows = 0;  ///< 0: no block has the scale
  Index column = 0;
  Index columns = 0;
};
/// Of every scale.
std::vector<BlockPlace> places_of(const Blocks& blocks);

/// None where no map tells the blocks (transposed codes of groups).
std::optional<Blocks> blocks_of(const Call& call, const Output& codes, const Tensor& scales);

/// The rule that is asked for, one block at a time.
class OwnRule {
 public:
  OwnRule(const ScaleRule& rule, Dtype format, Dtype scales, Dtype x)
      : rule_(rule), format_(format), scales_(scales), x_(x) {}

  /// The scale of a block with this amax.
  float stored(float amax) const;
  /// What x may have been multiplied or divided by where the scale is element `s` of `scales`: of
  /// `amax`, if that gives this scale; and every multiplier that is stored so.
  std::vector<float> factors(const Tensor& scales, Index s, float amax) const;
  /// The same of a block with this amax.
  float factor(float amax) const;
  /// The value that is rounded.
  float value(float x, float factor) const;
  std::uint8_t code(float x, float factor) const;
  const ElementRule& element() const { return rule_.element; }
  /// Whether scales are f32 that are rounded to powers of two.
  bool rounds_to_powers() const;
  /// The same rule under other limits of amax, in words.
  std::vector<std::pair<std::string, OwnRule>> other_limits() const;
  /// Whether x is divided by the stored scale, or multiplied by its inverse.
  bool divides() const;

 private:
  F32Scale f32(float amax) const;

  ScaleRule rule_;
  Dtype format_;
  Dtype scales_;
  Dtype x_;
};

struct QuantiserCall {
  const Output& codes;
  const Output& scales;
  Dtype format;
  Blocks blocks;
  double max;                  ///< the largest finite value of the format
  std::vector<float> amax;     ///< of each scale
  std::optional<OwnRule> own;  ///< none where no rule gives the codes expected from the scales

  /// None where nothing is left, codes have no eight bits, or shapes do not tell the blocks.
  static std::optional<QuantiserCall> of(const Call& call, const std::vector<Output>& outputs);
  float amax_of(Index scale) const { return nth(amax, scale); }
};

/// What x becomes before it is rounded.
struct ValueCast {
  const char* words;  ///< empty: as the operator has it
  bool (*applies)(const QuantiserCall& q);
  double (*factor)(const QuantiserCall& q, Index scale);
  double (*made)(const QuantiserCall& q, float x, double factor) =
      [](const QuantiserCall&, float x, double by) { return static_cast<double>(x) / by; };
  bool is_own() const { return *words == '\0'; }
};
/// As the rule that was asked for has it first, then other ways.
std::span<const ValueCast> value_casts();

/// The scales of all blocks by a measured rule, by one number or by another amax, which then takes
/// the place of `q.amax`.  `scales` is the one of `q`.
std::optional<Claim> claim_scales(Output& scales, QuantiserCall& q);
/// The ratios of a scale or two that are left, and whose amax they are; `parts`: empty unless each
/// is that of a part of its block.
std::string scales_in_words(const QuantiserCall& q, bool parts);
/// "2^-7 (byte 120)", "NaN", "0.0125".
std::string scale_in_words(const Tensor& scales, Index i);

/// Codes by a measured rule.  `codes` is the one of `q`.
std::optional<Claim> claim_codes(Output& codes, const QuantiserCall& q);
/// Codes that are made of x as it is, or with the amax of a part of their block alone.
std::optional<Claim> claim_part_of_blocks(Output& codes, const QuantiserCall& q);
/// Whether codes follow from the actual scales.
bool codes_follow(const QuantiserCall& q);

/// A rule that gives every actual scale.
struct ScaleRuleFound {
  std::string words;                   ///< "the scale is 2^(floor(log2 amax) - 8), ..."
  std::string stacks;                  ///< ": the rule of te"; empty: of none
  std::function<float(float)> stored;  ///< amax to the stored scale; NaN: not told
  bool named = true;                   ///< somebody's, rather than a step that was measured
  bool powers = true;                  ///< it stores powers of two
};
/// Of bytes a step function of the significand; of numbers a quotient, floor and power of two.
std::optional<ScaleRuleFound> rule_of(const std::vector<float>& amax, const Tensor& scales,
                                      Dtype format);

/// The scale of every element of a dequantised tensor, where shapes tell.
std::optional<ScaleMap> scale_map_of(const Call& call, const Output& x);

/// The largest finite value of a format.
double largest(Dtype format);

// ---- How a value becomes a code of eight bits, measured from pairs of both.

/// Magnitudes of a format in the order of their codes.
class Grid {
 public:
  explicit Grid(Dtype format);
  std::size_t top() const { return values_.size() - 1; }
  double value(std::size_t code) const { return values_[code]; }
  double least_normal() const { return values_[normal_]; }
  /// Above it lies what the nearest number beyond the largest code would take.
  double end() const { return 1.5 * values_[top()] - 0.5 * values_[top() - 1]; }
  /// Codes of one exponent.
  std::size_t fractions() const { return normal_; }
  bool fnuz() const { return fnuz_; }
  bool no_number(std::uint64_t code) const {
    return fnuz_ ? (code & 0xFF) == 0x80 : (code & 0x7F) > top();
  }
  /// The magnitude code of |v|, saturated.
  std::size_t round(double v, Rounding rounding) const;

 private:
  /// No magnitude of eight bits has more than three fraction bits: numbers that agree in these and
  /// in the exponent lie between the same two.
  static constexpr int kKeyShift = 52 - 3;
  static std::uint64_t key_of(double m) { return bit_cast<std::uint64_t>(m) >> kKeyShift; }

  std::vector<double> values_;
  std::vector<std::uint8_t> low_;  ///< code at or below, by key
  std::size_t normal_ = 1;
  bool fnuz_ = false;
};

/// What becomes zero: codes below the least normal one, or values before they are rounded to it.
enum class Flush : std::uint8_t { none, codes, values };

/// A rule of codes, measured.
struct CodeRule {
  Rounding rounding = Rounding::even;
  std::size_t clamp = 0;  ///< largest code
  double jump = 0;        ///< magnitudes above become the largest code; 0: none do
  Flush flush = Flush::none;
  double lost = 0;                   ///< magnitudes from here on become NaN or infinity; 0: none do
  bool lost_early = false;           ///< so does all above the largest code, whatever it rounds to
  std::optional<Rounding> low = {};  ///< of magnitudes below the least normal one, if another
  bool carry_lost = false;           ///< what rounds up to a power of two becomes half of it
  bool zero_signed = false;          ///< so are zeros of a format that has no negative one
  int low_step = 0;  ///< log2 of how much too large the step below the least normal one is
  std::size_t code(const Grid& g, double v) const;
  /// Whether `v` may become `came`, sign and all.
  bool gives(const Grid& g, double v, std::uint64_t got) const;
  /// In what it differs from `own`, the rule that was asked for.
  std::string words(const Grid& g, const CodeRule& own) const;
};

/// A pair that the rule has to give.
struct CodePair {
  double v;
  std::size_t code;
};

/// The rule that gives every pair.
std::optional<CodeRule> fit(const Grid& grid, const std::vector<CodePair>& pairs);
/// How often values went to the neighbour above, by how near that is.
class AtRandom {
 public:
  /// A value that lies `share` of the way to the neighbour farther from zero.
  void add(double share, bool away);
  /// Whether each neighbour was taken as often as the distances say.
  bool told() const;

 private:
  struct Bin {
    double n = 0;
    double away = 0;
    double expected = 0;
    double variance = 0;
  };
  std::array<Bin, 8> bins_{};
};
inline constexpr const char* kAtRandom =
    " rounded at random (stochastic rounding): each to one of the two neighbours of its value, the "
    "nearer as often as it is nearer";
inline constexpr const char* kCarryLost =
    "what rounds up to a power of two becomes half of it: the carry into the exponent is lost";
/// Whether codes go to either neighbour as often as their distances say; `carry_lost`: to half of
/// the one above, where that is a power of two.
bool rounds_at_random(const Grid& grid, const std::vector<CodePair>& pairs,
                      bool carry_lost = false);

// ---- Finders.

// Of an operator that makes codes and scales of x.

/// Claims about its rule.  Scales that came are taken as they are where codes are explained: each
/// of the two is judged by itself.
Claims recover_quantiser(const Call& call, std::vector<Output>& outputs);
/// Blocks of x that are all zero, or nearly, where all of these and no others have codes that are
/// NaN, or scales that are wrong.
Claims recover_degenerate_blocks(const Call& call, std::vector<Output>& outputs);
/// Marks codes that are those that the rule asked for makes under the actual scales.
void mark_what_follows(const Call& call, std::vector<Output>& outputs);
/// Of a scale or two that are left their ratio, and whose amax they are; empty of more.
std::string scales_seen(const Call& call, const std::vector<Output>& outputs);
/// "these are scales of rows 92 to 95 of x", of scales in tiles; empty of most rows.
std::string rows_of_tiles_seen(const Call& call, const std::vector<Output>& outputs);
/// "exactly the blocks with an amax of ... and less differ"; empty if they are told apart by no
/// magnitude.
std::string magnitudes_seen(const Call& call, const std::vector<Output>& outputs);

// Of values without scales.

/// How codes of `encode` were rounded.
Claims recover_encoded(const Call& call, Output& codes);
/// Numbers that are bf16 by stochastic rounding.
Claims recover_random(Backend& backend, const Call& call, Output& output);

// Of an operator that reads codes and scales.

/// Codes or scale bytes of a dequantised tensor that are read as another number, each the same
/// wherever it stands, while all others are right.
Claims recover_by_value(const Call& call, Output& x);
/// Codes or scale bytes of one side of a product that may have been read as NaN: every line with
/// one of them came as NaN, and no other.
void add_bytes_as_nan(const Call& call, const Output& y, List& list);
/// Codes of one side of a product that are read as other numbers, measured.
void add_decoded_codes(const Call& call, const Output& y, List& list);

}  // namespace mxo
