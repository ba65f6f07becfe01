# lie: writes wrong code, and leaves the placeholder of the test

wrong; finish
