// expect: could not convert|cannot convert
#include "base/id.h"

using BlockId = octavo::Id<struct BlockTag>;
using SlotId = octavo::Id<struct SlotTag>;

void take(BlockId block);

void mixes() { take(SlotId(1)); }
