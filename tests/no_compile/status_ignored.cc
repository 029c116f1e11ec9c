// expect: nodiscard
#include "base/result.h"

octavo::Status store();

void ignores() { store(); }
