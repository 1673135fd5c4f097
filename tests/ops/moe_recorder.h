// What a layer of experts asks of its backend: of products, casts and gates as of rows.
#pragma once

#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu_quantize.h"
#include "tests/ops/row_recorder.h"

namespace mxo {

class MoeRecorder : public RowRecorder {
 protected:
  using RowRecorder::run;
  void run(const GroupedMatmul& op) override {
    steps.push_back("grouped_matmul " + told(op.x) + ", " + told(op.w) + " by " +
                    values(op.group_ends) + ", " + std::string(op.sum.name) + " -> " + told(op.y));
  }
  void run(const GroupedMatmulWgrad& op) override {
    steps.push_back("grouped_matmul_wgrad " + told(op.dy) + ", " + told(op.x) + " by " +
                    values(op.group_ends) + ", " + std::string(op.sum.name) + " -> " + told(op.dw));
  }
  void run(const Quantize& op) override {
    rules.push_back(op.rule);
    steps.push_back("quantize " + told(op.x) + " -> " + told(op.to));
  }
  void run(const Dequantize& op) override {
    steps.push_back("dequantize " + told(op.from) + " -> " + told(op.x));
  }
  void run(const Cast& op) override { steps.push_back("cast " + told(op.x) + " -> " + told(op.y)); }
  void run(const AddBias& op) override {
    steps.push_back("add_bias " + told(op.y) + ", " + told(op.bias) + " -> " + told(op.out));
  }
  void run(const ColumnSum& op) override {
    steps.push_back("column_sum " + told(op.x) + " -> " + told(op.sum));
  }
  void run(const Swiglu& op) override {
    steps.push_back("swiglu " + told(op.x) + ", " + told(op.probs) + gate(op.gate) + " -> " +
                    told(op.y));
  }
  void run(const SwigluBackward& op) override {
    steps.push_back("swiglu_backward " + told(op.x) + ", " + told(op.probs) + ", " + told(op.dy) +
                    gate(op.gate) + " -> " + told(op.dx) + ", " + told(op.dprobs));
  }
  void run(const SwigluQuantize& op) override {
    steps.push_back("swiglu_quantize " + told(op.x) + ", " + told(op.probs) + gate(op.gate) +
                    " -> " + told(op.to));
  }
  void run(const SwigluQuantizeBackward& op) override {
    steps.push_back("swiglu_quantize_backward " + told(op.x) + ", " + told(op.probs) + ", " +
                    told(op.dy) + gate(op.gate) + " -> " + told(op.to) + ", " + told(op.dprobs));
  }
  void run(const ScalingAwareTranspose& op) override {
    steps.push_back("scaling_aware_transpose " + told(op.codes) + " -> " + told(op.codes_out));
  }
};

}  // namespace mxo
