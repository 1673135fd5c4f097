// What a product's output says about its operands: each finder adds hypotheses to a list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "golden/explain/find/product/sides.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

/// All that follows from the sums of a product, but for the two below.
void add_measured_scales(const Call& call, const Output& output, List& list);
/// Which expert's weights and which row of x each row shows.
void add_measured_rows(const Call& call, const Output& output, List& list);
/// Parts of the depth of some lines that were read from elsewhere, or without their signs, scales
/// or values: expensive, so tried last.
void add_misread_parts(const Call& call, const Output& output, List& list);

/// Blocks and single terms along the depth that are missing, doubled or negated in every sum that
/// fails.
void add_measured_terms(const Product& p, const Output& y, List& list);
/// Which block of x met which block of w, where some of the lines measured are no sum over blocks
/// that meet their own.
void add_measured_pairing(const Product& p, const Output& y, const std::vector<Effective>& lines,
                          List& list);
/// One side whose codes were read early or late along the depth.
void add_depth_shifts(const Product& p, const Output& y, List& list);
/// Lines that took the codes, the scales or both of other lines: at one distance, or in an order
/// that comes again every few.
void add_measured_lines(const Product& p, const Output& output, List& list);

/// The map from blocks to the blocks whose scales they took, the same on all measured lines: stuck,
/// restarted, first of every few, exchanged, or block by block.
void add_block_map(const Observation& seen, List& list);
/// Which of the given scales each line took, blocks and lines at one stride: those of another row,
/// block, expert, axis or stride.
void add_scale_sources(const Observation& seen, List& list);
/// Rows that took the scales of other rows in no order, each measured.
void add_row_sources(const Observation& few, const Output& output, List& list);

/// Codes of one side in another order along K, the same in every run of up to 128, where one lane
/// each was taken: an order of fragments, lanes or bytes.
void add_measured_lanes(const Call& call, const Output& output, List& list);
/// Of a dequantised tensor: the scale that every block shows.
void add_measured_blocks(const Call& call, const Output& output, List& list);
/// Of one with many rows that took the scales of others, each of another.
void add_rows_in_no_order(const Call& call, const Output& output, List& list);

/// Operands are read from elsewhere along an axis of which every slice has all: the depth, experts.
Hypothesis& add_read_in_slices(List& list, std::string name, std::string phrase,
                               std::vector<Reading> readings);
/// "the scales of x".
std::string side_words(const ProductSide& factor);
/// What may have been made of every scale of a factor: squared, left out, rounded.
void add_scale_values(const ProductSide& factor, List& list);
/// The same of both sides.
void add_scale_values(const Product& product, List& list);
/// Every scale `name` replaced by value(scale), on the grid of its type.
bool map_scales(Call& call, const std::string& name, const std::function<double(double)>& value);

}  // namespace mxo
