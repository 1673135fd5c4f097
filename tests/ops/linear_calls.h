// A linear layer of two groups that nothing computes: calls, and the steps recorded of them.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/grouped_linear.h"
#include "tests/ops/recorder.h"

namespace mxo {

using Steps = std::vector<std::string>;

/// 96 tokens of K 64, N 32, of which the groups have the first 32 and the rest.
struct LinearCalls : testing::Test {
  Tensor x{Dtype::bf16, {96, 64}}, codes{Dtype::e4m3, {96, 64}}, scales{Dtype::e8m0, {96, 2}};
  Tensor w{Dtype::bf16, {2, 32, 64}}, ends{Dtype::i32, {2}}, bias{Dtype::f32, {32}};
  Tensor biases{Dtype::bf16, {2, 32}}, dy{Dtype::bf16, {96, 32}}, dw{Dtype::f32, {2, 32, 64}};
  Tensor y{Dtype::bf16, {96, 32}}, dx{Dtype::bf16, {96, 64}}, dbias{Dtype::f32, {2, 32}};
  Recorder recorder;

  LinearCalls() {
    set_ends(32, 96);
    recorder.names = {{x.data(), "x"},   {codes.data(), "codes"},   {scales.data(), "scales"},
                      {w.data(), "w"},   {ends.data(), "ends"},     {bias.data(), "bias"},
                      {dy.data(), "dy"}, {biases.data(), "biases"}, {y.data(), "y"},
                      {dx.data(), "dx"}, {dw.data(), "dw"},         {dbias.data(), "dbias"}};
  }
  void set_ends(std::int32_t first, std::int32_t second) {
    ends.as<std::int32_t>()[0] = first;
    ends.as<std::int32_t>()[1] = second;
  }
  GroupedLinear call(std::string_view recipe = "mxfp8_rceil") {
    GroupedLinear op;
    op.x = x.operand();
    op.w = w.operand();
    op.group_ends = ends.operand();
    op.recipe = linear_recipe_named(recipe);
    op.y = y.result();
    return op;
  }
  GroupedLinear call_of_codes() {
    GroupedLinear op = call();
    op.x = {};
    op.x_codes = codes.operand();
    op.x_scales = scales.operand();
    return op;
  }
  /// What forward says, or nothing.
  std::string said(const GroupedLinear& op) {
    recorder.steps.clear();
    return word([&] { grouped_linear(recorder, op); });
  }
  std::string said(const GroupedLinear& op, const GroupedLinearBackward& of) {
    recorder.steps.clear();
    return word([&] { grouped_linear_backward(recorder, {op, {}, {}}, of); });
  }
  template <typename Fn>
  static std::string word(Fn fn) {
    try {
      fn();
    } catch (const Error& error) {
      return (error.fault() == Fault::unsupported ? "unsupported: " : "") +
             std::string(error.what());
    }
    return "";
  }
};

}  // namespace mxo
