// What headers compute in a user's translation unit, as one digest a function.  Compiled by us with
// our flags and by a consumer with others; the lines printed have to be the same.
#include <cstdio>

#include <mxoracle/backends.h>
#include <mxoracle/mxoracle.h>

namespace {

using namespace mxo;

/// FNV-1a over 32-bit words.
struct Digest {
  std::uint64_t value = 0xCBF29CE484222325u;
  void add(std::uint32_t word) { value = (value ^ word) * 0x100000001B3u; }
  void add(float x) { add(bit_cast<std::uint32_t>(x)); }
  void add(double x) {
    const auto word = bit_cast<std::uint64_t>(x);
    add(static_cast<std::uint32_t>(word));
    add(static_cast<std::uint32_t>(word >> 32));
  }
  void print(const char* what, const char* of = "") const {
    std::printf("%s%s %016llx\n", what, of, static_cast<unsigned long long>(value));
  }
};

/// Calls fn(x) for floats of every exponent, infinities and NaNs among them.
template <typename Fn>
void for_floats(std::uint32_t step, Fn fn) {
  std::uint32_t word = 0;
  do {
    fn(bit_cast<float>(word));
  } while ((word += step) >= step);
  for (const std::uint32_t special : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x80000000u}) {
    fn(bit_cast<float>(special));
  }
}

float magnitude(float x) { return bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu); }

template <FormatSpec S>
void sweep_codec(const char* name) {
  Digest digest;
  for_floats(20011, [&](float x) {
    digest.add(static_cast<std::uint32_t>(encode<S>(x).bits));
    digest.add(static_cast<std::uint32_t>(encode<S>(x, Overflow::saturate).bits));
  });
  for (unsigned code = 0; code < 1u << S.bits(); ++code) {
    digest.add(decode(Minifloat<S>{static_cast<typename Minifloat<S>::Bits>(code)}));
  }
  digest.print("codec ", name);
}

template <FormatSpec S>
void sweep_scales(const char* name) {
  Digest digest;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale == ScaleType::e8m0) {
      for (const ScaleMode mode :
           {ScaleMode::rceil, ScaleMode::floor, ScaleMode::ceil, ScaleMode::even}) {
        for_floats(1000003, [&, mode](float x) {
          const E8M0 scale = shared_scale<S>(magnitude(x), mode, row.rule.e8m0);
          digest.add(static_cast<std::uint32_t>(scale.bits));
          digest.add(static_cast<std::uint32_t>(quantize_element<S>(x * 0.37f, scale).bits));
        });
      }
      continue;
    }
    for_floats(100003, [&](float x) {
      const F32ScaleRule& rule = row.rule.f32;
      const F32Scale scale = f32_scale<S>(magnitude(x), rule, largest_finite<float>());
      digest.add(scale.factor);
      digest.add(scale.stored);
      const auto code = scale_element<S>(x * 0.37f, scale.factor, rule.code);
      digest.add(static_cast<std::uint32_t>(code.bits));
      digest.add(dequantize_element<float>(code, scale.stored) + 0x1.234568p-3f);
      digest.add(static_cast<std::uint32_t>(dequantize_element<BF16>(code, scale.stored).bits));
    });
  }
  digest.print("scales ", name);

  // A sum that a compiler may want to fuse with the product.
  Digest sums;
  for (unsigned code = 0; code < 256; ++code) {
    for (unsigned scale = 0; scale < 256; ++scale) {
      const float x = dequantize_f32(Minifloat<S>{static_cast<std::uint8_t>(code)},
                                     E8M0{static_cast<std::uint8_t>(scale)});
      for (const float y : {-0x1p127f, 0x1.234568p-3f, 0x1.fffffep-130f}) sums.add(x + y);
    }
  }
  sums.print("dequantize ", name);
}

void sweep_functions() {
  Digest pairs;
  Digest exp;
  Digest sigmoid;
  for (int i = -400000; i <= 400000; ++i) {
    const DoublePair pair = exp_pair(i * 0x1.1p-12);
    pairs.add(pair.high);
    pairs.add(pair.low);
  }
  for_floats(4001, [&](float x) {
    exp.add(exp_rn(x));
    sigmoid.add(sigmoid_rn(x));
  });
  pairs.print("exp_pair");
  exp.print("exp_rn");
  sigmoid.print("sigmoid_rn");
}

/// The library's own objects, which may have been linked with the consumer's copies of our inlines.
void sweep_operator(const char* name) {
  const auto backend = make_backend(name);
  Tensor x(Dtype::f32, {64, 2048});
  for (Index i = 0; i < x.elements(); ++i) {
    const auto word = static_cast<std::uint32_t>(i) * 2654435761u;
    x.as<float>()[i] = static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-26f;
  }
  const Tensor y = call_operator(*backend, "swiglu", NamedTensors{{"x", x}}, {}).at("y");
  Digest digest;
  for (Index i = 0; i < y.elements(); ++i) {
    digest.add(static_cast<std::uint32_t>(y.as<BF16>()[i].bits));
  }
  digest.print("swiglu ", name);
}

}  // namespace

int main() {
  sweep_codec<kE4M3>("e4m3");
  sweep_codec<kE5M2>("e5m2");
  sweep_codec<kE4M3Fnuz>("e4m3fnuz");
  sweep_codec<kE5M2Fnuz>("e5m2fnuz");
  sweep_codec<kF16>("f16");
  sweep_codec<kBF16>("bf16");
  sweep_scales<kE4M3>("e4m3");
  sweep_scales<kE5M2>("e5m2");
  sweep_scales<kE4M3Fnuz>("e4m3fnuz");
  sweep_scales<kE5M2Fnuz>("e5m2fnuz");
  sweep_functions();
  sweep_operator("reference");
  sweep_operator("cpu:scalar");
  sweep_operator("cpu");
}
