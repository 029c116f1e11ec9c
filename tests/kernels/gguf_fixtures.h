#pragma once

#include <cstdint>

// Blocks of GGUF formats with the values that the Python package gguf 0.19.0 gives for them (as bit
// patterns of f32): two blocks of 32 per format, made by quantize() of normal numbers, the second
// with a subnormal scale.

namespace octavo::kernels::fixtures {

inline constexpr uint8_t kQ8_0Bytes[] = {
    19, 37,  0,   15,  242, 211, 233, 206, 3,   68,  231, 225, 25,  18,  5,   209, 255,
    35, 188, 233, 160, 191, 163, 244, 192, 14,  8,   247, 129, 229, 254, 6,   179, 232,
    5,  0,   194, 205, 67,  205, 254, 56,  219, 249, 7,   4,   178, 5,   86,  158, 55,
    8,  215, 127, 48,  180, 5,   37,  244, 43,  252, 42,  91,  213, 13,  227, 8,   181};
inline constexpr uint32_t kQ8_0Values[] = {
    0x0,        0x3e983a00, 0xbe8e1400, 0xbf645700, 0xbee96a00, 0xbf7db600, 0x3d739000, 0x3fac8600,
    0xbefdb600, 0xbf1d4d00, 0x3efdb600, 0x3eb6ac00, 0x3dcaf800, 0xbf6e7d00, 0xbca26000, 0x3f319900,
    0xbfac8600, 0xbee96a00, 0xbff39000, 0xbfa4e980, 0xbfebf380, 0xbe739000, 0xbfa26000, 0x3e8e1400,
    0x3e226000, 0xbe36ac00, 0xc0211b40, 0xbf090100, 0xbd226000, 0x3df39000, 0xbfc35b80, 0xbef39000,
    0xb79b0000, 0xb77f0000, 0x37a78000, 0xb77f0000, 0xb5200000, 0x378c0000, 0xb7390000, 0xb60c0000,
    0x360c0000, 0x35a00000, 0xb7c30000, 0x35c80000, 0x37d70000, 0xb7f50000, 0x37898000, 0x36200000,
    0xb74d0000, 0x381ec000, 0x37700000, 0xb7be0000, 0x35c80000, 0x37390000, 0xb6700000, 0x37570000,
    0xb5a00000, 0x37520000, 0x37e38000, 0xb7570000, 0x36820000, 0xb7110000, 0x36200000, 0xb7bb8000};

inline constexpr uint8_t kQ4_0Bytes[] = {248, 51,  102, 119, 156, 141, 115, 69,  139, 96,  214, 184,
                                         141, 187, 119, 199, 135, 174, 94,  128, 205, 135, 142, 207,
                                         121, 187, 87,  112, 139, 170, 135, 246, 201, 121, 245, 86};
inline constexpr uint32_t kQ4_0Values[] = {
    0xbeff0000, 0xbe7f0000, 0x3f7f0000, 0x3f9f6000, 0xbf9f6000, 0xbf3f4000, 0x3f3f4000, 0xbfff0000,
    0xbeff0000, 0x0,        0x3f9f6000, 0x3f3f4000, 0xbe7f0000, 0xbe7f0000, 0xbe7f0000, 0x3fbf4000,
    0xbeff0000, 0xbe7f0000, 0x3e7f0000, 0x0,        0xbe7f0000, 0xbf7f0000, 0x0,        0xbeff0000,
    0x3f9f6000, 0x3f3f4000, 0x0,        0x3f3f4000, 0xbe7f0000, 0x3f7f0000, 0x0,        0x3eff0000,
    0xb7eb0000, 0x36bc0000, 0xb80d0000, 0xb8248000, 0xb6bc0000, 0xb78d0000, 0x36bc0000, 0x383c0000,
    0xb78d0000, 0xb73c0000, 0x36bc0000, 0x373c0000, 0xb6bc0000, 0xb6bc0000, 0x378d0000, 0x373c0000,
    0xb7bc0000, 0x80000000, 0x80000000, 0xb7bc0000, 0x36bc0000, 0xb78d0000, 0x378d0000, 0x36bc0000,
    0x80000000, 0xb73c0000, 0x80000000, 0xb8248000, 0xb7bc0000, 0x36bc0000, 0xb8248000, 0x378d0000};

inline constexpr uint8_t kQ4_1Bytes[] = {65,  51,  252, 190, 80,  43,  212, 123, 200, 129,
                                         93,  110, 87,  134, 103, 99,  45,  69,  247, 84,
                                         71,  0,   79,  130, 243, 106, 175, 129, 103, 101,
                                         176, 124, 136, 137, 229, 202, 166, 104, 35,  211};
inline constexpr uint32_t kQ4_1Values[] = {
    0xbfdf8000, 0x3f3f5800, 0xbf56e000, 0x3f3f5800, 0x3d8a0000, 0xbfc27c00, 0x3f99b400, 0x3fb6b800,
    0xbe232000, 0xbec5a000, 0xbe232000, 0xbf887400, 0x3f99b400, 0xbf1cd800, 0xbe232000, 0xbf56e000,
    0xbf1cd800, 0xbfa57800, 0x3f99b400, 0xbe232000, 0x3f796000, 0x3d8a0000, 0xbf1cd800, 0xbec5a000,
    0xbf1cd800, 0x3d8a0000, 0xbec5a000, 0xbec5a000, 0xbfa57800, 0xbf56e000, 0x3fd3bc00, 0xbf1cd800,
    0xb7bd0000, 0x36ee0000, 0x37ed0000, 0xb8020000, 0xb6bc0000, 0xb76c0000, 0xb813c000, 0x37828000,
    0xb5b80000, 0x36400000, 0xb76c0000, 0x36ee0000, 0xb7250000, 0xb5b80000, 0xb7bd0000, 0xb7bd0000,
    0x37ed0000, 0xb7250000, 0x36ee0000, 0xb5b80000, 0xb7250000, 0xb7250000, 0x373e0000, 0xb6bc0000,
    0xb5b80000, 0xb5b80000, 0x37c98000, 0x37828000, 0x36ee0000, 0xb7250000, 0xb7e08000, 0x37a60000};

}  // namespace octavo::kernels::fixtures
