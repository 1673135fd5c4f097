// What people of other stacks type, and what it is called here.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <string_view>

namespace mxo {

enum class Word { operation, parameter, format, scale_layout, block };

/// The name here of what is `typed`, whatever the case of its letters; empty if there is none.
/// Formats, layouts, types and blocks are the same thing under another name and may be taken for
/// it; operators and parameters are a hint, since what they take is spelt otherwise, too.
std::string_view name_here(Word kind, std::string_view typed);

}  // namespace mxo
