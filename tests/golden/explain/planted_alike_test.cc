// Data on which several causes give the same bits: all of them are said, or none.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo::planted_alike_test {
namespace {

struct Alike {
  const char* what;
  const char* said;  ///< that has to be in the sentence
  std::function<std::string(Backend&)> explained;
  const char* unsaid = "EVEN";  ///< that must not be
};

/// Bytes of an operand, each as of(i, bytes that were given).
template <typename Of>
void bytes_as(Call& c, const char* name, const Of& of) {
  const Tensor given = c.input(name);
  Tensor t = given;
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(of(i, given.as<std::uint8_t>()));
  c.replace(name, std::move(t));
}
template <typename Of>
void floats_as(Call& c, const char* name, const Of& of) {
  c.replace(name, mapped(c.input(name), of));
}
template <typename Of>
Call with_bytes(Call c, const char* name, const Of& of) {
  bytes_as(c, name, of);
  return c;
}

Call product(Backend& b) { return mx_product(b, 3, {{32, 64}, 64, 48, 128}); }
Call dequantized(Backend& b) {
  const Call p = product(b);
  return of("dequantize", {{"codes", p.input("x.codes")}, {"scales", p.input("x.scales")}});
}

std::string zeros(const Call& call, const char* name) {
  return said_of(call, [name](NamedTensors& out) {
    std::memset(out.at(name).data(), 0, out.at(name).bytes());
  });
}

Tensor rows_as(const Tensor& given, Index (*from)(Index)) {
  Tensor t = given;
  runs_from(t, given, row_bytes(t), from);
  return t;
}

std::string rows_of(const Call& call, std::initializer_list<const char*> names,
                    Index (*from)(Index)) {
  return said_with(call, [&](Call& c) {
    for (const char* name : names) c.replace(name, rows_as(c.input(name), from));
  });
}
/// A gradient of groups that end so.
Call gradient(const std::vector<std::int32_t>& ends) {
  return of("grouped_matmul_wgrad", {{"dy", random_bf16({ends.back(), 48}, 3)},
                                     {"x", random_bf16({ends.back(), 64}, 4)},
                                     {"group_ends", ends_of(ends)}});
}
Call four_groups(Backend& b) { return mx_product(b, 3, {{40, 130, 199, 256}, 256, 64, 512}); }
Index first_eight(Index r) { return r >= 48 && r < 130 ? 40 + r % 8 : r; }

Call rows_of_powers() {
  return of_x("quantize", mapped(random_floats({64, 256}, 7), [](Index i, float) {
                return std::ldexp(i % 3 == 0 ? -1.0f : 1.0f,
                                  static_cast<int>((i / 256) * (i / 256) % 17));
              }));
}

const Alike kAlike[] = {
    {"one block of K is not zero", "equivalently, K blocks of w take the scale of the block before",
     [](Backend& b) {
       const auto block_2 = [](Index i, const auto* t) { return i / 32 % 4 == 2 ? t[i] : 0; };
       return said_with(with_bytes(product(b), "x.codes", block_2), [](Call& c) {
         bytes_as(c, "w.scales", [](Index i, const auto* t) { return t[i % 4 == 2 ? i - 1 : i]; });
       });
     }},
    {"all rows have the scales of row 0", "rolled back by one block along K",
     [](Backend& b) {
       const Call call =
           with_bytes(product(b), "x.scales", [](Index i, const auto*) { return 120 + i % 4 * 3; });
       return said_with(call, [](Call& c) {
         bytes_as(c, "x.scales", [](Index i, const auto* t) { return t[i / 4 * 4 + (i + 1) % 4]; });
       });
     },
     "of line 0"},
    {"scales of two rows by turns",
     "1 row before; equivalently, the scales of x are those of 1 row",
     [](Backend& b) {
       Call call = rowwise_product(b, 3, {{32, 64}, 64, 48, 64});
       const auto by_turns = [](Index odd) {
         return [odd](Index i, float) { return i % 2 == odd ? 0.7f : 0.9f; };
       };
       floats_as(call, "x.scales", by_turns(1));
       return said_with(call, [&](Call& c) { floats_as(c, "x.scales", by_turns(0)); });
     }},
    {"two experts are alike", "equivalently, group 2 is multiplied by the weights of expert 1",
     [](Backend& b) {
       const auto experts = [](Call& c, std::array<Index, 3> from) {
         for (const char* name : {"w.codes", "w.scales"})
           bytes_as(c, name, [&, each = c.input(name).elements() / 3](Index i, const auto* t) {
             return t[from.at(static_cast<std::size_t>(i / each)) * each + i % each];
           });
       };
       Call call = mx_product(b, 3, {{16, 32, 64}, 64, 48, 128});
       experts(call, {0, 0, 2});
       return said_with(call, [&](Call& c) { experts(c, {0, 1, 1}); });
     }},
    {"half of some rows", "all of y: every value is multiplied by 2^-1, as it is where x is taken",
     [](Backend& b) {
       return said_of(product(b), [](NamedTensors& out) {
         out.at("y") = mapped(out.at("y"), [](Index i, float v) {
           return i / 48 >= 5 && i / 48 < 11 ? 0.0f : v / 2;
         });
       });
     }},
    {"zeros of a dequantised tensor", "hold zeros",
     [](Backend& b) { return zeros(dequantized(b), "x"); }, "bits of f32"},
    {"zeros of a gradient of a gate", "hold zeros",
     [](Backend&) {
       return zeros(of("swiglu_backward",
                       {{"x", random_bf16({24, 128}, 3)}, {"dy", random_bf16({24, 64}, 4)}}),
                    "dx");
     },
     "limit"},
    {"every code is the largest", "where code 7E is expected, code 7D came",
     [](Backend&) {
       const Tensor x = mapped(random_floats({64, 128}, 7), [](Index i, float v) {
         return std::ldexp(v < 0 ? -448.0f : 448.0f, static_cast<int>(i / 32 % 5));
       });
       return said_of(of_x("quantize", x), [](NamedTensors& out) {
         for (Index i = 0; i < 64 * 128; ++i) --out.at("codes").as<std::uint8_t>()[i];
       });
     },
     "clamped"},
    {"scales of two values in tiles", "change places",
     [](Backend&) {
       const Call call =
           of("swizzle_scales", {{"scales", filled<std::uint8_t>(Dtype::u8, {128, 4}, [](Index i) {
                                    return i < 256 ? 125 : 121;
                                  })}});
       return said_with(call, [](Call& c) {
         bytes_as(c, "scales", [](Index i, const auto* t) { return t[511 - i]; });
       });
     },
     "written"},
    {"powers of two times 1.1", "",
     [](Backend&) {
       const Call call = of_x("quantize", rows_of_powers().input("x"), "block=1xK scale=f32");
       return said_of(call, [](NamedTensors& out) {
         out.at("scales") = mapped(out.at("scales"), [](Index i, float v) {
           return i > 40 && i < 50 ? 3.0f * v : 1.1f * v;
         });
       });
     },
     "bits are flipped"},
    {"scales of a row are alike", "",
     [](Backend&) {
       return said_of(rows_of_powers(), [](NamedTensors& out) {
         std::byte* s = out.at("scales").data();
         std::memmove(s + 40 * 8, s + 13 * 8, 16);
       });
     },
     "hold the rows"},
    {"rows of a sum are alike", "0.984375 times",
     [](Backend&) {
       const Tensor x = filled<float>(Dtype::f32, {64, 32}, [](Index i) { return i % 32 + 1; });
       return said_with(of_x("column_sum", x), [](Call& c) {
         floats_as(c, "x", [](Index i, float v) { return i < 32 ? 0.0f : v; });
       });
     },
     "left out"},
    {"rows of one group take the scales of its first eight", "row 48 that of 40, 49 that of 41",
     [](Backend& b) { return rows_of(four_groups(b), {"x.scales"}, first_eight); },
     "in runs of 128"},
    {"rows take the scales of padded groups", "those of 24 rows after in group 1",
     [](Backend& b) {
       return rows_of(four_groups(b), {"x.scales"}, [](Index r) {
         return r < 40 ? r : r < 130 ? r + 24 : r < 199 ? r + 30 : 255;
       });
     },
     "in group 3, "},
    {"rows of both sides of a gradient", "equivalently, rows of x are reversed in runs of 2",
     [](Backend&) {
       return rows_of(gradient({40, 130, 199, 256}), {"x"},
                      [](Index r) { return r >= 40 && r < 130 ? r ^ 1 : r; });
     }},
    {"no value reaches the limit", "raised by 1; equivalently, the gate is that of GPT-OSS",
     [](Backend&) {
       const Call call = of("swiglu_backward", {{"x", times(random_bf16({64, 256}, 5), 0x1p-6f)},
                                                {"dy", random_bf16({64, 128}, 6)}});
       return said_with(call, [](Call& c) {
         c.set.set("alpha", "1.702");
         c.set.set("up_offset", "1");
       });
     }},
    {"a third of the rows is the second, which is the first", "hold the rows 32 before",
     [](Backend&) {
       const Tensor x =
           rows_as(random_floats({96, 64}, 7), [](Index r) { return r < 64 ? r % 32 : r; });
       return said_of(of_x("cast", x), [](NamedTensors& out) {
         out.at("y") = rows_as(out.at("y"), [](Index r) { return r < 64 ? r : r - 32; });
       });
     },
     "modulo"},
    {"indices that exchange pairs", "i xor 1; equivalently, the indices are ignored",
     [](Backend&) {
       const Tensor to = filled<std::int32_t>(Dtype::i32, {32}, [](Index i) { return i ^ 1; });
       const Call call = of("permute", {{"x", random_bf16({32, 64}, 3)}, {"indices", to}});
       return said_of(call, [&](NamedTensors& out) { out.at("y") = call.input("x"); });
     }},
    {"groups of one row take x of the row after", "no known cause",
     [](Backend&) {
       return rows_of(gradient({1, 2, 3, 4, 5, 6, 7, 8}), {"x"},
                      [](Index r) { return (r + 1) % 8; });
     }},
    {"rows come in eights", "those of 8 before",
     [](Backend& b) {
       Call call = four_groups(b);
       for (const char* name : {"x.codes", "x.scales"})
         call.replace(name, rows_as(call.input(name), [](Index r) { return r - r % 8; }));
       return rows_of(call, {"x.codes", "x.scales"}, [](Index r) { return r < 199 ? r : r - 8; });
     },
     "7 before"},
    {"rows come by turns", "(reversed); equivalently, each is the row 1 before",
     [](Backend&) {
       const Tensor x = rows_as(random_floats({64, 256}, 7), [](Index r) { return r % 2; });
       return rows_of(of_x("cast", x), {"x"}, [](Index r) { return r ^ 1; });
     }},
    {"every code is zero", "all are zero",
     [](Backend&) {
       return said_with(of_x("quantize", times(random_floats({64, 256}, 7), 1e-40f)),
                        [](Call& c) { floats_as(c, "x", [](Index, float v) { return 0 * v; }); });
     },
     "whole number"},
    {"a score of two tokens", "no known cause",
     [](Backend&) {
       return said_with(of("route", {{"logits", random_floats({2, 8}, 28)}}, "top_k=2"),
                        [](Call& c) { c.set.set("score", "sigmoid"); });
     },
     "nearer"},
    {"scales alone are half", "every value is multiplied by 2^-1, as it is where power_of_2 is up",
     [](Backend&) {
       return said_of(of_x("quantize", random_floats({32, 64}, 7), "block=1xK scale=f32"),
                      [](NamedTensors& out) {
                        out.at("scales") = mapped(out.at("scales"), [](Index i, float v) {
                          return i < 4 ? 0.0f : v / 2;
                        });
                      });
     }},
    {"codes of some rows are of another format", "of no whole row",
     [](Backend& b) {
       Call call = dequantized(b);
       call.replace("codes", filled<std::uint8_t>(Dtype::u8, {64, 128}, [](Index i) {
                      return static_cast<std::uint8_t>(i * 37 % 1021);
                    }));
       return said_of(call, [&](NamedTensors& out) {
         Call wrong = call;
         wrong.set.set("format", "e4m3fnuz");
         const Tensor x = std::move(run_call(b, wrong).at("x"));
         runs_from(out.at("x"), x, row_bytes(x), [](Index r) { return r > 40 ? r : -1; });
       });
     },
     "every scale is half"},
};

TEST(PlantedAlike, AllAreSaidOrNone) {
  const auto b = make_cpu_backend();
  for (const Alike& row : kAlike) {
    const std::string said = row.explained(*b);
    EXPECT_NE(said.find(row.said), said.npos) << row.what << ": " << said;
    EXPECT_EQ(said.find(row.unsaid), said.npos) << row.what << ": " << said;
  }
}

}  // namespace
}  // namespace mxo::planted_alike_test
