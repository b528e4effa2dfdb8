# Third-party libraries, as SYSTEM includes so that our warnings stop at their headers.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
include(OubliOneDnn)
find_path(STB_INCLUDE_DIR stb_image.h PATH_SUFFIXES stb REQUIRED)

add_library(oubli_dependencies INTERFACE)
target_link_libraries(oubli_dependencies INTERFACE
  fmt::fmt nlohmann_json::nlohmann_json OpenSSL::Crypto ZLIB::ZLIB DNNL::dnnl Threads::Threads
  ${CMAKE_DL_LIBS})
get_target_property(eigen_include Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(oubli_dependencies SYSTEM INTERFACE ${eigen_include} ${STB_INCLUDE_DIR})
# One worker is one thread everywhere: Eigen must not start threads of its own.
target_compile_definitions(oubli_dependencies INTERFACE EIGEN_DONT_PARALLELIZE EIGEN_MPL2_ONLY)

set(OUBLI_HAVE_MPI OFF)
if(OUBLI_WITH_MPI)
  enable_language(C)  # FindMPI asks the C compiler
  find_package(MPI QUIET COMPONENTS C)
  set(OUBLI_HAVE_MPI ${MPI_C_FOUND})
endif()
message(STATUS "oubli: MPI ${OUBLI_HAVE_MPI}")
if(OUBLI_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(OUBLI_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
