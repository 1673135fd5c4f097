// Single terms along the depth that are missing, added twice or of the other sign in every sum.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/scales.h"
#include "golden/explain/recover/term_multiples.h"

namespace mxo {
namespace {

/// Depths of a group with one multiple.
std::vector<Index> depths_with(const std::vector<int>& multiple, int m, Index first) {
  std::vector<Index> found;
  for (std::size_t d = 0; d < multiple.size(); ++d) {
    if (multiple[d] == m) found.push_back(first + static_cast<Index>(d));
  }
  return found;
}

/// `change` done to the codes of a at the depths named: columns of x, or rows of dy.
bool change_codes(Call& call, const Product& p, const std::vector<Index>& depths,
                  const std::function<void(std::byte* element, std::size_t size)>& change) {
  Tensor codes = call.input(p.a.codes_name);
  const std::size_t size = size_of(codes.dtype());
  const Index columns = codes.extent(1);
  const Index lines = p.wgrad ? columns : codes.extent(0);
  for (const Index d : depths) {
    if (d >= (p.wgrad ? codes.extent(0) : columns)) return false;
    for (Index i = 0; i < lines; ++i) {
      const Index at = p.wgrad ? d * columns + i : i * columns + d;
      change(codes.data() + static_cast<std::size_t>(at) * size, size);
    }
  }
  call.replace(p.a.codes_name, std::move(codes));
  return true;
}

void clear_code(std::byte* element, std::size_t size) { std::memset(element, 0, size); }

void propose(std::vector<Hypothesis>& list, const char* id, std::string phrase,
             std::function<bool(Call&)> alter) {
  list.push_back({id, std::move(phrase), Stage::input, std::move(alter), {}, true});
}

std::string depths_in_words(const Product& p, const std::vector<Index>& depths) {
  if (p.wgrad) {
    return ranges_in_words("row", depths) + " of " + p.a.name + " and " + p.b.name;
  }
  return k_in_words(depths);
}

/// The blocks of K that hold terms which are there twice, with those terms alone, once more.
bool append_terms(Call& call, const Product& p, const std::vector<Index>& depths) {
  std::vector<Index> blocks;
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(p.k));
  for (const Index d : depths) {
    kept[static_cast<std::size_t>(d)] = 1;
    if (blocks.empty() || blocks.back() != d / p.block) blocks.push_back(d / p.block);
  }
  if (!append_blocks(call, blocks, p.block)) return false;
  std::vector<Index> others;
  Index at = ceil_div(p.k, p.block) * p.block;
  for (const Index b : blocks) {
    for (Index d = b * p.block; d < (b + 1) * p.block; ++d, ++at) {
      if (d < p.k && kept[static_cast<std::size_t>(d)] == 0) others.push_back(at);
    }
  }
  return change_codes(call, p, others, clear_code);
}

}  // namespace

void add_measured_terms(const Product& p, const Output& y, std::vector<Hypothesis>& list) {
  std::vector<Index> missing;
  std::vector<Index> twice;
  std::vector<Index> negative;
  const auto note = [&](const std::vector<Index>& groups, Index first) {
    const std::vector<int> multiple = multiples_of_terms(p, y, groups);
    for (const auto& [m, depths] :
         {std::pair{0, &missing}, std::pair{2, &twice}, std::pair{-1, &negative}}) {
      const std::vector<Index> more = depths_with(multiple, m, first);
      depths->insert(depths->end(), more.begin(), more.end());
    }
  };
  std::vector<Index> groups(static_cast<std::size_t>(p.groups()));
  std::iota(groups.begin(), groups.end(), Index{0});
  if (p.wgrad) {  // the depth of each group is its own
    for (const Index g : groups) note({g}, p.begin(g));
  } else {
    note(groups, 0);
  }
  // Of all terms alike other causes speak: a factor, a sign.
  const Index all = p.wgrad ? p.ends.back() : p.k;
  for (std::vector<Index>* depths : {&missing, &twice, &negative}) {
    if (static_cast<Index>(depths->size()) == all) depths->clear();
  }
  if (!missing.empty()) {
    propose(list, "k.missing", "the products of " + depths_in_words(p, missing) + " are left out",
            [p, missing](Call& c) { return change_codes(c, p, missing, clear_code); });
  }
  if (!negative.empty()) {
    propose(list, "k.negative",
            "the products of " + depths_in_words(p, negative) + " have the other sign",
            [p, negative](Call& c) {
              return change_codes(c, p, negative, [](std::byte* element, std::size_t size) {
                element[size - 1] ^= std::byte{0x80};
              });
            });
  }
  if (!twice.empty() && !p.wgrad) {
    propose(list, "k.twice", "the products of " + depths_in_words(p, twice) + " are added twice",
            [p, twice](Call& c) { return append_terms(c, p, twice); });
  }
}

}  // namespace mxo
