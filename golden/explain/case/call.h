// One operator call whose operands are shared, so that altering one does not copy the others; an
// operand whose elements are read from elsewhere: all of it, or some lines without the rest.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/catalogue.h"

namespace mxo {

/// Element `i` of a list.
template <typename Elements>
decltype(auto) nth(Elements& list, Index i) {
  return list[static_cast<std::size_t>(i)];
}

/// What calls may still read, in elements of their operands: no clock, so that an answer is the
/// same on a busy machine.  The call that would read more throws OutOfWork.
struct Work {
  double left = 0;
};
struct OutOfWork {};

struct Call {
  std::string op;
  std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> inputs;
  Parameters set;
  World* world = nullptr;  ///< of an operator that works on many ranks
  Work* work = nullptr;    ///< of all calls that are made of this one

  bool has(std::string_view name) const { return inputs.find(name) != inputs.end(); }
  /// Throws Fault::argument if the operand is not there.
  const Tensor& input(std::string_view name) const;
  void replace(const std::string& name, Tensor tensor) {
    inputs.insert_or_assign(name, std::make_shared<const Tensor>(std::move(tensor)));
  }
};

/// i64 group_ends become i32, and parameters what the catalogue lists: "BF16" is bf16.
Call make_call(std::string_view op, NamedTensors inputs, const Parameters& set);
NamedTensors run_call(Backend& backend, const Call& call);

/// Matrices of the last two axes of a tensor; a tensor of one axis is one row.
struct Matrices {
  Index rows;
  Index columns;
  Index elements;  ///< of the tensor
};
Matrices matrices_of(const Tensor& tensor);

/// Elements of some rows, of all matrices one after the other.
struct Cells {
  std::span<const Index> rows;
  std::span<const Index> columns;
};

struct Reading {
  std::string operand;
  std::function<bool(const Matrices&)> applies;
  /// Writes what a kernel sees as `cells`, one after the other.
  std::function<void(const Tensor&, const Cells&, std::byte* to)> read;
  int least_rank = 2;  ///< of the tensor
};

/// An element, an index in the whole tensor, and how many columns from it on are read from what
/// follows it; 1 and less: it alone.
struct SourceRun {
  SourceRun(Index first, Index columns = 1) : from(first), length(columns) {}
  Index from;
  Index length;
};

/// A reading that sees as element (row, column) of a matrix the one at
/// source(matrices, matrix, row, column), an index or a run; beyond the tensor there are zeros.
template <typename Source>
Reading make_reading(std::string operand, std::function<bool(const Matrices&)> applies,
                     Source source) {
  const auto read = [source](const Tensor& given, const Cells& cells, std::byte* to) {
    const Matrices m = matrices_of(given);
    const std::size_t size = size_of(given.dtype());
    const auto most = std::ssize(cells.columns);
    const bool gapless = std::ranges::adjacent_find(cells.columns, [](Index a, Index b) {
                           return b != a + 1;
                         }) == cells.columns.end();
    const auto copied = [&](auto bytes) {
      for (const Index line : cells.rows) {
        const Index matrix = line / m.rows;
        const Index row = line % m.rows;
        for (Index c = 0; c < most;) {
          const SourceRun run = source(m, matrix, row, nth(cells.columns, c));
          const Index n = gapless ? std::clamp<Index>(run.length, 1, most - c) : 1;
          const Index end = run.from + n;
          if (n > 1 && run.from >= 0 && end <= m.elements) {
            const std::size_t all = static_cast<std::size_t>(n) * bytes;
            std::memcpy(to, given.data() + static_cast<std::size_t>(run.from) * bytes, all);
            to += all;
          } else {
            for (Index i = run.from; i < end; ++i, to += bytes) {
              if (i >= 0 && i < m.elements) {
                std::memcpy(to, given.data() + static_cast<std::size_t>(i) * bytes, bytes);
              } else {
                std::memset(to, 0, bytes);
              }
            }
          }
          c += n;
        }
      }
    };
    if (size == 1) {
      copied(std::integral_constant<std::size_t, 1>{});
    } else if (size == 2) {
      copied(std::integral_constant<std::size_t, 2>{});
    } else {
      copied(size);
    }
  };
  return {std::move(operand), std::move(applies), read};
}

/// A reading of a tensor of any axes that sees as element i the one at source(i); where that is
/// beyond the tensor, zero.
template <typename Source>
Reading read_elements(std::string operand, Source source) {
  Reading reading = make_reading(
      std::move(operand), [](const Matrices&) { return true; },
      [source = std::move(source)](const Matrices& m, Index matrix, Index row, Index column) {
        return source((matrix * m.rows + row) * m.columns + column);
      });
  reading.least_rank = 1;
  return reading;
}
/// The same of whole lines along an axis (from 0; the last is -1): line i is source(i).
Reading read_lines(std::string operand, int axis, std::function<Index(Index i)> source);

/// Whether the operand is there and can be read so.
bool applies(const Reading& reading, const Call& call);
/// The operand as it is read; false where the reading does not apply.
bool read_whole(Call& call, const Reading& reading);
/// The indices `kept` of axis `axis` of it only.
Tensor read_gathered(const Reading& reading, const Tensor& given, int axis,
                     const std::vector<Index>& kept);

/// The last two axes of an operand from a buffer that holds them the other way round.
Reading read_transposed(std::string operand);

}  // namespace mxo
