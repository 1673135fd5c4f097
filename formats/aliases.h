// What people of other stacks type, and what it is called here.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <string>
#include <string_view>

namespace mxo {

enum class Word { operation, parameter, format, scale_layout, block, sum, rule, recipe };

/// The name here of what is `typed`, whatever the case of its letters; empty if there is none.
/// Formats, layouts, blocks and recipes are the same thing under another name and may be taken for
/// it; operators, parameters and sums are a hint: they take other operands, and one library adds in
/// several ways.
std::string_view canonical_name(Word kind, std::string_view typed);

/// What to type instead of a word that means several things here, or another kind of thing; empty
/// if nothing is known of it.
std::string advice_on(Word kind, std::string_view typed);

}  // namespace mxo
