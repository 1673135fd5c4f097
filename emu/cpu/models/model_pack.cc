// Which factors are read by table.
#include "emu/cpu/models/model_pack.h"

namespace mxo::cpu {

OperandReader::OperandReader(const MachineProduct& product, const MachineLines& lines)
    : product_(product), lines_(lines), fraction_(fraction_bits(product.operand_type(lines))) {
  if (product.scaling == Scaling::mx || !is_minifloat8(lines.codes.dtype)) return;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    table_.push_back(dot_operand_at(&byte, lines.codes.dtype, 0));
  }
}

}  // namespace mxo::cpu
