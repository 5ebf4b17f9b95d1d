// Included ahead of all else in q3map2: where libxml2 is built with ICU, it
// includes <stdbool.h>, and q3map2 has a bool of its own.

#ifndef DMLAB_BUILD_LIBXML_WITHOUT_ICU_H_
#define DMLAB_BUILD_LIBXML_WITHOUT_ICU_H_

#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#endif  // DMLAB_BUILD_LIBXML_WITHOUT_ICU_H_
