// Which part of each operand a part of an output takes, and where that part lies.
#include "golden/suites/shapes/slices.h"

#include <algorithm>

#include "formats/error.h"

namespace mxo {
namespace {

constexpr Index kUnit = 128;

Index extent(const ShapedCall& call, char letter) {
  const auto at = call.dimensions.find(letter);
  return at == call.dimensions.end() ? 1 : at->second;
}

/// Units of rows that hold about `elements` in all.
Index step_of(Index elements, Index other_extent) {
  return std::max(kUnit, elements / std::max<Index>(1, other_extent) / kUnit * kUnit);
}

}  // namespace

/// Ends of the runs of rows that no slice crosses: groups, or matrices.
std::vector<Index> Slicer::row_segments() const {
  if (!call_.ends.empty() && call_.set.text("layout", "") != "k_groups") return call_.ends;
  std::vector<Index> ends;
  for (Index b = 1; b <= extent(call_, 'B'); ++b) ends.push_back(b * extent(call_, 'M'));
  return ends;
}

/// Blocks of rows of which all rows are before `row`, which begins one.
Index Slicer::blocks_before(Index row, Index block) const {
  if (block == 1) return row;
  Index blocks = 0;
  Index begin = 0;
  for (const Index end : row_segments()) {
    if (row <= begin) break;
    blocks += ceil_div(std::min(row, end) - begin, block);
    begin = end;
  }
  return blocks;
}

std::vector<CallSlice> Slicer::slices() const {
  std::vector<CallSlice> slices;
  const auto add = [&](std::size_t group, Index begin, Index end, Index step) {
    for (Index at = begin; at < end; at += step) {
      slices.push_back({static_cast<Index>(group), at, std::min(end, at + step)});
    }
  };
  Index widest = 1;
  for (const ShapedInput& input : call_.inputs) {
    if (!input.axes.empty() && input.axes.back().letter != 'M' && input.recipe.shape.size() > 1) {
      widest = std::max(widest, input.recipe.shape.back());
    }
  }
  // Every slice of a product reads all of one operand: few of them.
  constexpr Index kOfProducts = 16;
  Index elements = elements_;
  if (call_.op.starts_with("grouped_")) {
    elements *= kOfProducts;
    widest = std::max(widest, extent(call_, 'N'));
  }
  const Index step = step_of(elements, widest);
  const std::vector<Index> segments = row_segments();
  switch (call_.cut) {
    case Cut::whole: return {{0, 0, 0}};
    case Cut::columns: add(0, 0, extent(call_, 'K'), step_of(elements, extent(call_, 'M'))); break;
    case Cut::rows:
      for (std::size_t g = 0; g < segments.size(); ++g) {
        add(g, g == 0 ? 0 : segments[g - 1], segments[g], step);
      }
      break;
    case Cut::features:
      for (std::size_t g = 0; g < segments.size(); ++g) add(g, 0, extent(call_, 'N'), step);
      break;
  }
  return slices;
}

/// The part of one operand that a slice takes, and its shape.
std::pair<Box, std::vector<Index>> Slicer::part_of(const ShapedInput& input,
                                                   const CallSlice& slice) const {
  const std::vector<Index>& shape = input.recipe.shape;
  Box box = whole_box(shape);
  if (call_.cut == Cut::whole) return {box, shape};
  const std::size_t rank = shape.size();
  const InputAxis& last = input.axes.back();
  const auto along_last = [&](Index begin, Index end) {
    if (rank == 1) {
      box.row_begin = begin;
      box.row_end = end;
    } else {
      const Index block = std::max<Index>(1, last.block);
      box.column_begin = last.block == 0 ? 0 : begin / block;
      box.column_end = last.block == 0 ? 1 : ceil_div(end, block);
    }
  };
  const auto shape_of = [&](std::vector<Index> leading) {
    if (rank == 1) return std::vector<Index>{box.rows()};
    leading.push_back(box.columns());
    return leading;
  };
  if (call_.cut == Cut::columns) {
    if (last.letter == 'K') along_last(slice.begin, slice.end);
    return {box, shape_of({shape.begin(), shape.end() - 1})};
  }
  const std::vector<Index> segments = row_segments();
  const auto group = static_cast<std::size_t>(slice.group);
  const Index first_row = group == 0 ? 0 : segments[group - 1];
  const bool features = call_.cut == Cut::features;
  const Index row_begin = features ? first_row : slice.begin;
  const Index row_end = features ? segments[group] : slice.end;
  if (input.recipe.name == "group_ends") return {Box{0, 1, 0, 1}, {1}};
  if (rank == 3 && input.axes[0].letter == 'G') {
    const Index each = shape[1];
    const Index begin = features ? slice.begin : 0;
    const Index end = features ? slice.end : each;
    box.row_begin = slice.group * each + begin;
    box.row_end = slice.group * each + end;
    return {box, {1, end - begin, shape[2]}};
  }
  const InputAxis& rows = input.axes[rank == 1 ? 0 : rank - 2];
  if (rows.letter == 'M') {
    box.row_begin = rows.block == 1 ? row_begin : blocks_before(row_begin, rows.block);
    box.row_end = rows.block == 1 ? row_end : blocks_before(row_end, rows.block);
    if (features && last.letter == 'N') along_last(slice.begin, slice.end);
    return {box, shape_of({box.rows()})};
  }
  return {box, shape};
}

const NamedTensors& Slicer::inputs(const CallSlice& slice) {
  for (const ShapedInput& input : call_.inputs) {
    const auto [box, shape] = part_of(input, slice);
    const InputRecipe& recipe = input.recipe;
    if (recipe.name == "group_ends" && call_.cut != Cut::whole && call_.cut != Cut::columns) {
      const auto group = static_cast<std::size_t>(slice.group);
      const Index rows = call_.cut == Cut::rows
                             ? slice.end - slice.begin
                             : call_.ends[group] - (group == 0 ? 0 : call_.ends[group - 1]);
      Tensor ends(Dtype::i32, {1});
      ends.as<std::int32_t>()[0] = static_cast<std::int32_t>(rows);
      made_.insert_or_assign(recipe.name, std::move(ends));
      continue;
    }
    const auto box_before = boxes_.find(recipe.name);
    const bool fits = box_before != boxes_.end() && made_.at(recipe.name).shape() == shape;
    if (fits && box_before->second == box) continue;
    if (!fits) made_.insert_or_assign(recipe.name, Tensor(recipe.format, shape));
    fill_input(recipe, call_.options.seed, box, threads_, made_.at(recipe.name));
    boxes_.insert_or_assign(recipe.name, box);
  }
  return made_;
}

double Slicer::most_bytes() const {
  double most = 0;
  for (const CallSlice& slice : slices()) {
    double bytes = 0;
    for (const ShapedInput& input : call_.inputs) {
      const Box box = part_of(input, slice).first;
      bytes += static_cast<double>(box.rows()) * static_cast<double>(box.columns()) *
               static_cast<double>(size_of(input.recipe.format));
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::optional<Box> Slicer::place(const OutputShape& whole, const CallSlice& slice,
                                 const std::vector<Index>& part_shape) const {
  const Box all = whole_box(whole.shape);
  const Box part = whole_box(part_shape);
  const auto fits = [&](const Box& box) {
    return box.row_begin >= 0 && box.row_end <= all.row_end && box.column_begin >= 0 &&
           box.column_end <= all.column_end;
  };
  const auto at = [&](Index row, Index column) {
    const Box box{row, row + part.rows(), column, column + part.columns()};
    if (!fits(box)) {
      throw Error(Fault::internal, call_.op + ": " + whole.name + ": a slice lies outside of it");
    }
    return box;
  };
  switch (call_.cut) {
    case Cut::whole: return at(0, 0);
    case Cut::features: return at(slice.group * extent(call_, 'N') + slice.begin, 0);
    case Cut::columns: {
      const Index k = extent(call_, 'K');
      if (slice.end - slice.begin < k && part == all) {
        return slice.begin == 0 ? std::optional(all) : std::nullopt;
      }
      const bool turned = part.rows() != all.rows();
      return turned ? at(slice.begin * all.rows() / k, 0) : at(0, slice.begin * all.columns() / k);
    }
    case Cut::rows: break;
  }
  // Rows of the call are rows of the output, or columns; or blocks of them.
  const Index matrices = extent(call_, 'B');
  const bool turned = part.columns() != all.columns();
  const Index whole_extent = turned ? all.columns() * matrices : all.rows();
  const Index part_extent = turned ? part.columns() : part.rows();
  const Index rows = row_segments().back();
  for (Index block = 1; block <= kUnit; block *= 2) {
    if (blocks_before(rows, block) != whole_extent) continue;
    const Index before = blocks_before(slice.begin, block);
    if (blocks_before(slice.end, block) - before != part_extent) continue;
    if (!turned) return at(before, 0);
    const Index columns = all.columns();
    return at(before / columns * part.rows(), before % columns);
  }
  throw Error(Fault::unsupported, call_.op + ": " + whole.name +
                                      ": its blocks are longer than 128 rows, and it is "
                                      "too large to be made at once");
}

}  // namespace mxo
