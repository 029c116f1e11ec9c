# Micro-benchmarks: programs of their own, not run by ctest.
add_executable(bench_kernels bench/bench_kernels.cc)
target_link_libraries(bench_kernels PRIVATE octavo_kernels)
octavo_options(bench_kernels)
target_include_directories(bench_kernels PRIVATE ${PROJECT_SOURCE_DIR})
