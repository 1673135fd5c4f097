// Checks of encode and decode.
#include "ops/convert.h"

#include "ops/checked.h"

namespace mxo {
namespace {

void same_shape(const Check& check, std::string_view out, const Result& written,
                const Operand& read) {
  bool same = written.rank == read.rank;
  for (int i = 0; same && i < read.rank; ++i) same = written.extent[i] == read.extent[i];
  check.that(same, std::string(out) + ": found " + describe(written) + ", needs the shape of " +
                       describe(read));
}

}  // namespace

void encode(Backend& backend, const Encode& op) {
  const Check check("encode");
  check.rank("x", op.x, 1, kMaxRank);
  check.dtype("x", op.x, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.dtype("codes", op.codes,
              {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz, Dtype::e8m0});
  same_shape(check, "codes", op.codes, op.x);
  check.apart("codes", op.codes, "x", op.x);
  Checked::run(backend, op);
}

void decode(Backend& backend, const Decode& op) {
  const Check check("decode");
  check.rank("codes", op.codes, 1, kMaxRank);
  check.dtype("codes", op.codes,
              {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz, Dtype::e8m0});
  check.dtype("x", op.x, {Dtype::f32});
  same_shape(check, "x", op.x, op.codes);
  check.apart("x", op.x, "codes", op.codes);
  Checked::run(backend, op);
}

}  // namespace mxo
