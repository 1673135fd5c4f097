// Codes to two slices, one by one.
#include "tests/support/tile_emulation.h"

namespace mxo::test {

using cpu::kBlock;
using cpu::kChunk;
using cpu::ShiftedSlices;

void encode_two_slices(const cpu::SliceTable& table, int chunks, const std::uint8_t* codes,
                       const std::uint8_t* shift, const cpu::SliceTarget& to,
                       cpu::SliceTally& tally) noexcept {
  tally.special = false;
  std::memset(tally.residual, 0, sizeof(std::uint64_t) * static_cast<std::size_t>(chunks));
  for (int c = 0; c < chunks * kChunk; ++c) {
    const int magnitude = codes[c] & 0x7F;
    const bool negative = codes[c] >= 0x80;
    if (magnitude > table.max_finite || (table.nan_minus_0 && codes[c] == 0x80))
      tally.special = true;
    const ShiftedSlices& slices = table.shifted[shift[c / kBlock]];
    const int integer = 256 * slices.high[magnitude] + slices.low[magnitude];
    const int x = negative ? -integer : integer;
    const int at = to.place(c / kChunk) + c % kChunk;
    to.high[at] = static_cast<std::int8_t>(x >> 8);
    to.low[at] = static_cast<std::int8_t>(x & 0xFF);
    const std::uint32_t above = slices.high[magnitude] + 1u;
    tally.squares[c % kChunk / 4] += above * above;
    std::uint8_t& min_magnitude = tally.min_magnitude[c % 64];
    min_magnitude = std::min(min_magnitude, static_cast<std::uint8_t>(magnitude - 1));
    if (magnitude != 0 && magnitude < slices.residual_below)
      tally.residual[c / 64] |= std::uint64_t{1} << c % 64;
  }
}

}  // namespace mxo::test
