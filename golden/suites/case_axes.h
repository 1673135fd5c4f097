// The axes of a call, read from the shapes that its operator has in the catalogue, and slices of
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/catalogue.h"

namespace mxo {

/// An output may have the name of an operand, and other axes.
enum class TensorRole : std::uint8_t { input, output };

/// Units of each axis that stay, ascending; an axis that is not named stays whole.
using KeptUnits = std::map<std::string, std::vector<Index>, std::less<>>;

/// "[E, N, K/32]" says that axis 2 of an operand runs over blocks of K.  Axes of one letter are cut
/// together, in units that no block is smaller than a part of; rows that group_ends sorts stay with
/// their groups, and groups that lose their experts lose their rows.
class CaseAxes {
 public:
  /// Throws Error(unsupported) for an operator on ranks, whose cases are not cut.
  CaseAxes(std::string_view op, const Parameters& set, const NamedTensors& inputs,
           const NamedTensors& outputs);

  /// Letters that can be cut, in the order of the catalogue.
  const std::vector<std::string>& letters() const { return letters_; }
  Index extent(std::string_view letter) const { return axis(letter).extent; }
  Index units(std::string_view letter) const;
  /// The group of a unit of the rows that group_ends sorts; -1 past the last end.
  Index group_of(Index unit) const;
  /// The letter of the groups; empty if there are none.
  const std::string& group_letter() const { return group_letter_; }

  /// True if each axis of the tensor is a letter or a block of one, so that it can be cut.
  bool cuts(const std::string& output) const {
    return tensors_.contains({TensorRole::output, output});
  }
  /// The units that element `i` of an output stands for.
  KeptUnits units_of(const std::string& output, const Tensor& tensor, Index i) const;
  /// The part of a tensor that stays.  group_ends count the rows that stay.
  Tensor cut(TensorRole side, const std::string& name, const Tensor& tensor,
             const KeptUnits& kept) const;
  /// Groups whose expert goes lose their rows, and groups without rows their expert.
  void resolve(KeptUnits& kept) const;

 private:
  struct Axis {
    Index extent = 0;
    Index unit = 1;
  };
  /// One axis of one tensor: `runs` stretches of `extent of letter / block` elements.
  struct Dimension {
    std::string letter;
    Index runs = 1;
    Index block = 1;
  };
  using Name = std::pair<TensorRole, std::string>;
  struct Spelled {
    Name name;
    std::vector<Dimension> dimensions;
  };

  const Axis& axis(std::string_view letter) const { return axes_.find(letter)->second; }
  std::vector<Index> positions(const Dimension& dimension, Index extent,
                               const KeptUnits& kept) const;
  Tensor cut_ends(const Tensor& tensor, const KeptUnits& kept) const;
  std::vector<bool> kept_rows(const KeptUnits& kept) const;
  bool measure(const Spelled& spelled, const Tensor& tensor);
  void find_groups(const NamedTensors& inputs);
  void freeze(const std::vector<Spelled>& unread);

  std::map<std::string, Axis, std::less<>> axes_;
  std::map<Name, std::vector<Dimension>> tensors_;
  std::vector<std::string> letters_;
  std::vector<Index> ends_;
  std::string row_letter_;
  std::string group_letter_;
};

}  // namespace mxo
