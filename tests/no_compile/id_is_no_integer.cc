// expect: could not convert|cannot convert
#include "base/id.h"

using BlockId = octavo::Id<struct BlockTag>;

void take(BlockId block);

void mixes() { take(1); }
