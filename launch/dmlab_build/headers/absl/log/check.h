// The macros CHECK of Abseil's absl/log/check.h; see log.h beside it.

#ifndef DMLAB_BUILD_ABSL_LOG_CHECK_H_
#define DMLAB_BUILD_ABSL_LOG_CHECK_H_

#include "absl/log/log.h"

#define CHECK(condition) \
  LOG_IF(FATAL, !(condition)) << "Check failed: " #condition " "

#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))

#endif  // DMLAB_BUILD_ABSL_LOG_CHECK_H_
