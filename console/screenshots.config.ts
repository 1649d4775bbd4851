import base from './playwright.config'

// Tells the stories first, so that there is something to see, then takes pictures.
export default { ...base, testMatch: ['2-story.spec.ts', '3-agents.spec.ts', '3-rent.spec.ts', '4-pictures.spec.ts'], testIgnore: [] }
