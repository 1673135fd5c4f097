// What a tensor must reach to pass.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mxo {

struct Gate {
  enum class Kind : std::uint8_t {
    bits,   ///< every compared position has the expected bits
    ulp,    ///< every compared position within `ulp` steps of the format
    sqnr,   ///< every group reaches `sqnr` dB, and nothing is nonfinite on one side only
    bound,  ///< |out - exact| within the certified bound of the operation; others: bits
    right,  ///< sqnr=auto: no group falls below what right kernels have; others: bits
  };
  Kind kind = Kind::bits;
  std::uint64_t ulp = 0;
  double sqnr = 0;
  std::string_view preset = {};  ///< whose threshold `sqnr` is; empty: the caller's own

  /// True for gates that judge by the operands of the call.
  bool needs_operands() const { return kind == Kind::bound || kind == Kind::right; }
};

/// A threshold that others hold their kernels to: "sqnr=torchao_mxfp8_moe".
struct SqnrPreset {
  std::string_view name;
  double decibels;
  std::string_view source;  ///< repository, commit, file and line
};
std::span<const SqnrPreset> sqnr_presets();

/// One gate and what it says.
struct GateRow {
  std::string_view name;
  std::string_view meaning;
};
std::span<const GateRow> gates();

/// "bits", "ulp=2", "sqnr=40", "sqnr=auto", "sqnr=PRESET", "bound".  Throws Error(argument).
Gate parse_gate(std::string_view text);
/// Throws Error(argument) for an SQNR that zeros reach, or that is no number.
void check_gate(const Gate& gate);
std::string to_text(const Gate& gate);

}  // namespace mxo
