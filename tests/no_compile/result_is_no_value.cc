// expect: cannot convert
#include "base/result.h"

octavo::Result<int> load();

// The value is reached through the check only.
int takes() {
  int value = load();
  return value;
}
