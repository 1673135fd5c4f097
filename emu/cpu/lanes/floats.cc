// Loops over rows of floats: swiglu, its gradients, sums of scaled rows.
#include "emu/cpu/exp_table.h"
#include "emu/cpu/lanes/lanes.h"
#include "emu/cpu/lanes/tables.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {
namespace {

constexpr hn::Half<decltype(kFloats)> kHalfFloats;
constexpr hn::Rebind<double, decltype(kHalfFloats)> kDoubles;
constexpr hn::RebindToSigned<decltype(kDoubles)> kLongs;
constexpr hn::RebindToUnsigned<decltype(kDoubles)> kLongWords;
using D = hn::Vec<decltype(kDoubles)>;

HWY_API F all_floats(float a) { return hn::Set(kFloats, a); }
HWY_API D set(double a) { return hn::Set(kDoubles, a); }

HWY_API F canonical(F a) { return hn::IfThenElse(hn::IsNaN(a), floats(all(0x7FC00000)), a); }

struct F32 {
  using Element = float;
  static HWY_INLINE F load(const Element* x) { return hn::LoadU(kFloats, x); }
  static HWY_INLINE void store(Element* y, F value) { hn::StoreU(canonical(value), kFloats, y); }
};
struct BF16 {
  using Element = std::uint16_t;
  static HWY_INLINE F load(const Element* x) {
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(kWords, hn::LoadU(kHalves, x))));
  }
  /// To nearest even; the canonical NaN becomes 7FC0.
  static HWY_INLINE void store(Element* y, F value) {
    const I word = bits(canonical(value));
    const I odd = hn::And(shift_right<16>(word), all(1));
    const I up = shift_right<16>(hn::Add(word, hn::Add(odd, all(0x7FFF))));
    hn::StoreU(hn::DemoteTo(kHalves, up), kHalves, y);
  }
};

/// Up to 16 elements of a row that are not a whole vector, in a whole one.
template <typename Element>
class Rest {
 public:
  Rest() = default;
  HWY_INLINE Rest(const Element* from, std::size_t n) {
    __builtin_memcpy(at, from, n * sizeof(Element));
  }
  HWY_INLINE void write(Element* to, std::size_t n) const {
    __builtin_memcpy(to, at, n * sizeof(Element));
  }
  alignas(64) Element at[kMaxLanes] = {};
};

/// Calls step(i) for whole vectors and tail(i, n - i) for the elements left.
template <typename Step, typename Tail>
HWY_INLINE void in_vectors(Index n, Step step, Tail tail) {
  const Index each = lanes();
  Index i = 0;
  for (; i + each <= n; i += each) step(i);
  if (i < n) tail(i, static_cast<std::size_t>(n - i));
}

template <typename X>
HWY_FLATTEN void add_scaled(const void* from, Index n, float weight, float* sum) noexcept {
  using Element = typename X::Element;
  const auto* x = static_cast<const Element*>(from);
  const auto add = [weight](const Element* at, float* to) {
    hn::StoreU(hn::Add(hn::LoadU(kFloats, to), hn::Mul(X::load(at), all_floats(weight))), kFloats,
               to);
  };
  in_vectors(
      n, [&](Index i) { add(x + i, sum + i); },
      [&](Index i, std::size_t left) {
        const Rest<Element> rest(x + i, left);
        Rest<float> rest_sum(sum + i, left);
        add(rest.at, rest_sum.at);
        rest_sum.write(sum + i, left);
      });
}

template <typename X, typename Y>
HWY_FLATTEN void scale(const void* from, Index n, float weight, void* to) noexcept {
  using Element = typename X::Element;
  const auto* x = static_cast<const Element*>(from);
  auto* y = static_cast<typename Y::Element*>(to);
  in_vectors(
      n, [&](Index i) { Y::store(y + i, hn::Mul(X::load(x + i), all_floats(weight))); },
      [&](Index i, std::size_t left) {
        Rest<typename Y::Element> rest_y;
        Y::store(rest_y.at, hn::Mul(X::load(Rest<Element>(x + i, left).at), all_floats(weight)));
        rest_y.write(y + i, left);
      });
}

template <typename X, typename Z>
HWY_FLATTEN void multiply(const void* from, const void* with, Index n, float* products) noexcept {
  const auto* x = static_cast<const typename X::Element*>(from);
  const auto* z = static_cast<const typename Z::Element*>(with);
  in_vectors(
      n,
      [&](Index i) { hn::StoreU(hn::Mul(X::load(x + i), Z::load(z + i)), kFloats, products + i); },
      [&](Index i, std::size_t left) {
        const Rest<typename X::Element> rest(x + i, left);
        const Rest<typename Z::Element> rest_z(z + i, left);
        Rest<float> rest_products;
        hn::StoreU(hn::Mul(X::load(rest.at), Z::load(rest_z.at)), kFloats, rest_products.at);
        rest_products.write(products + i, left);
      });
}

/// table[step mod 32].  Eight lanes hold a quarter of the table: picking among four is faster than
/// AVX-512's gather.
template <typename Step>
HWY_INLINE D entry(const double* table, Step step) {
  if constexpr (HWY_TARGET == HWY_AVX3) {
    const auto within = hn::IndicesFromVec(kDoubles, hn::And(step, hn::Set(kLongWords, 7)));
    const auto quarter = [&](int i) HWY_ATTR {
      return hn::TableLookupLanes(hn::Load(kDoubles, table + 8 * i), within);
    };
    const auto odd = hn::RebindMask(kDoubles, hn::TestBit(step, hn::Set(kLongWords, 8)));
    const auto upper = hn::RebindMask(kDoubles, hn::TestBit(step, hn::Set(kLongWords, 16)));
    return hn::IfThenElse(upper, hn::IfThenElse(odd, quarter(3), quarter(2)),
                          hn::IfThenElse(odd, quarter(1), quarter(0)));
  } else {
    const auto index = hn::BitCast(kLongs, hn::And(step, hn::Set(kLongWords, 31)));
    return hn::GatherIndex(kDoubles, table, index);
  }
}

/// high + low rounded to odd, for high > 0: rounding that to float sees no false tie.
HWY_API D sticky(D high, D low) {
  const auto zero = hn::Zero(kDoubles);
  const auto below = hn::BitCast(kLongs, hn::VecFromMask(kDoubles, hn::Lt(low, zero)));  // 0 or -1
  const auto inexact = hn::BitCast(kLongWords, hn::VecFromMask(kDoubles, hn::Ne(low, zero)));
  const auto word = hn::Add(hn::BitCast(kLongs, high), below);
  const auto one = hn::BitCast(kLongs, hn::ShiftRight<63>(inexact));
  return hn::BitCast(kDoubles, hn::Or(word, one));
}

/// 1 / (1 + exp(-x)) for x from -104 to 30.  The steps are those of formats/exp.h, one by one, so
/// that the bits are.
HWY_API D sigmoid_half(D x) {
  const D minus = hn::Sub(set(0.0), x);
  const D n = hn::Round(hn::Mul(minus, set(0x1.71547652b82fep+5)));
  const D r = hn::Sub(hn::Sub(minus, hn::Mul(n, set(0x1.62e42fefap-6))),
                      hn::Mul(n, set(0x1.cf79abc9e3b3ap-45)));
  D p = set(1.0 / 5040.0);
  p = hn::MulAdd(p, r, set(1.0 / 720.0));
  p = hn::MulAdd(p, r, set(1.0 / 120.0));
  p = hn::MulAdd(p, r, set(1.0 / 24.0));
  p = hn::MulAdd(p, r, set(1.0 / 6.0));
  p = hn::MulAdd(p, r, set(0.5));
  p = hn::MulAdd(hn::Mul(p, r), r, r);
  // 2^(n / 32) is a table's entry n mod 32 times 2^(n div 32).  Adding 1.5 * 2^52 leaves n in the
  // low bits; adding the exponent's bias to n div 32 first makes both shifts of a positive number.
  const auto step = hn::BitCast(kLongWords, hn::Add(n, set(0x1.8p52 + 1023 * 32)));
  const D t_high = entry(kExp2Table.high, step);
  const D t_low = entry(kExp2Table.low, step);
  const D scale = hn::BitCast(kDoubles, hn::ShiftLeft<52>(hn::ShiftRight<5>(step)));
  const D e_rest = hn::Add(t_low, hn::Mul(t_high, p));
  const D e_sum = hn::Add(t_high, e_rest);
  const D e_high = hn::Mul(e_sum, scale);
  const D e_low = hn::Mul(hn::Sub(e_rest, hn::Sub(e_sum, t_high)), scale);
  const D one = set(1.0);
  const D high = hn::Add(one, e_high);
  // Whichever of 1 and e is larger goes first: what the sum lost.
  const D larger = hn::Max(e_high, one);
  const D smaller = hn::Min(e_high, one);
  const D low = hn::Add(hn::Sub(smaller, hn::Sub(high, larger)), e_low);
  const D q = hn::Div(one, high);
  const D correction = hn::Mul(hn::Sub(hn::NegMulAdd(q, high, one), hn::Mul(q, low)), q);
  const D sum = hn::Add(q, correction);
  return sticky(sum, hn::Sub(correction, hn::Sub(sum, q)));
}

HWY_API F sigmoid(F x) {
  const F inside = hn::Min(hn::Max(x, all_floats(-104.0f)), all_floats(30.0f));
  const auto lower = hn::DemoteTo(
      kHalfFloats, sigmoid_half(hn::PromoteTo(kDoubles, hn::LowerHalf(kHalfFloats, inside))));
  const auto upper = hn::DemoteTo(
      kHalfFloats, sigmoid_half(hn::PromoteTo(kDoubles, hn::UpperHalf(kHalfFloats, inside))));
  // 1 above 30, 0 below -104, NaN of a NaN.
  F sigma = hn::Combine(kFloats, upper, lower);
  sigma = hn::IfThenElse(hn::Gt(x, all_floats(30.0f)), all_floats(1.0f), sigma);
  sigma = hn::IfThenZeroElse(hn::Lt(x, all_floats(-104.0f)), sigma);
  return hn::IfThenElse(hn::IsNaN(x), x, sigma);
}

template <typename X, typename Y>
HWY_INLINE void gate_vector(const typename X::Element* a, const typename X::Element* b, float prob,
                            typename Y::Element* y) {
  const F gated = X::load(a);
  const F silu = hn::Mul(gated, sigmoid(gated));
  Y::store(y, hn::Mul(hn::Mul(silu, X::load(b)), all_floats(prob)));
}

template <typename X, typename Y>
HWY_FLATTEN void gate(const void* from_a, const void* from_b, Index n, float prob,
                      void* to) noexcept {
  using Element = typename X::Element;
  const auto* a = static_cast<const Element*>(from_a);
  const auto* b = static_cast<const Element*>(from_b);
  auto* y = static_cast<typename Y::Element*>(to);
  in_vectors(
      n, [&](Index i) { gate_vector<X, Y>(a + i, b + i, prob, y + i); },
      [&](Index i, std::size_t left) {
        Rest<typename Y::Element> rest_y;
        gate_vector<X, Y>(Rest<Element>(a + i, left).at, Rest<Element>(b + i, left).at, prob,
                          rest_y.at);
        rest_y.write(y + i, left);
      });
}

template <typename X, typename G, typename Y>
HWY_INLINE void gradient_vector(const typename X::Element* a, const typename X::Element* b,
                                const typename G::Element* dy, float prob, typename Y::Element* da,
                                typename Y::Element* db, float* products) {
  const F gated = X::load(a);
  const F up = X::load(b);
  const F d = G::load(dy);
  const F s = sigmoid(gated);
  const F one = all_floats(1.0f);
  const F g = hn::Mul(d, all_floats(prob));
  const F dsilu = hn::Mul(s, hn::Add(one, hn::Mul(gated, hn::Sub(one, s))));
  const F silu = hn::Mul(gated, s);
  Y::store(da, hn::Mul(hn::Mul(g, dsilu), up));
  Y::store(db, hn::Mul(g, silu));
  if (products != nullptr) hn::StoreU(hn::Mul(hn::Mul(silu, up), d), kFloats, products);
}

template <typename X, typename G, typename Y>
HWY_FLATTEN void gradient(const void* from_a, const void* from_b, const void* from_dy, Index n,
                          float prob, void* to_da, void* to_db, float* products) noexcept {
  using Element = typename X::Element;
  const auto* a = static_cast<const Element*>(from_a);
  const auto* b = static_cast<const Element*>(from_b);
  const auto* dy = static_cast<const typename G::Element*>(from_dy);
  auto* da = static_cast<typename Y::Element*>(to_da);
  auto* db = static_cast<typename Y::Element*>(to_db);
  in_vectors(
      n,
      [&](Index i) {
        gradient_vector<X, G, Y>(a + i, b + i, dy + i, prob, da + i, db + i,
                                 products == nullptr ? nullptr : products + i);
      },
      [&](Index i, std::size_t left) {
        const Rest<typename G::Element> rest_dy(dy + i, left);
        Rest<typename Y::Element> rest_da;
        Rest<typename Y::Element> rest_db;
        Rest<float> rest_products;
        gradient_vector<X, G, Y>(Rest<Element>(a + i, left).at, Rest<Element>(b + i, left).at,
                                 rest_dy.at, prob, rest_da.at, rest_db.at, rest_products.at);
        rest_da.write(da + i, left);
        rest_db.write(db + i, left);
        if (products != nullptr) rest_products.write(products + i, left);
      });
}

}  // namespace

const FloatKernels kFloatKernels = {
    {{gate<F32, F32>, gate<F32, BF16>}, {gate<BF16, F32>, gate<BF16, BF16>}},
    {{{gradient<F32, F32, F32>, gradient<F32, F32, BF16>},
      {gradient<F32, BF16, F32>, gradient<F32, BF16, BF16>}},
     {{gradient<BF16, F32, F32>, gradient<BF16, F32, BF16>},
      {gradient<BF16, BF16, F32>, gradient<BF16, BF16, BF16>}}},
    {add_scaled<F32>, add_scaled<BF16>},
    {{scale<F32, F32>, scale<F32, BF16>}, {scale<BF16, F32>, scale<BF16, BF16>}},
    {{multiply<F32, F32>, multiply<F32, BF16>}, {multiply<BF16, F32>, multiply<BF16, BF16>}},
};

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
