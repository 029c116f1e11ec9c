// expect: nodiscard
#include "base/result.h"

octavo::Result<int> load();

// A failure must be looked at.
void ignores() { load(); }
